//! What a browser loads beside the page: a style sheet, a script and an icon, all of this program alone.

/// The style sheet.
pub const STYLE: &str = include_str!("assets/page.css");
/// The script: it puts live parts in their place, and is not needed to read or to decide.
pub const SCRIPT: &str = include_str!("assets/page.js");
/// The icon of the tab.
pub const ICON: &str = include_str!("assets/icon.svg");
/// What a page may load and do: its own style, script, forms and events, and nothing of anybody else's.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; form-action 'self'; base-uri 'self'; frame-ancestors 'none'";
