//! Rules on what tools are called with (spec 06, Isolation): a call is allowed, put to a person, or denied. Rules narrow
//! what the list of tools allows and never widen it. Decides on names and parsed arguments alone.

use globset::{GlobBuilder, GlobMatcher};

use crate::brief::EVERY_TOOL;
use crate::mcp;
use crate::words::parsed_words;

/// The tool whose words are a program and its arguments.
const RUN: &str = "run";
/// Tools whose one word is a path, relative to the workspace where it lies there.
const FILE_TOOLS: [&str; 5] = ["read", "list", "search", "write", "edit"];
/// Stands for any number of words of a command.
const ANY_WORDS: &str = "**";

parsed_words! {
    /// What becomes of a call; each is stricter than the one before.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum PermissionAction {
        /// It is made.
        Allow = "allow",
        /// It is made when a person allows it.
        Ask = "ask",
        /// It is not made.
        Deny = "deny",
    }
}

/// One rule: what becomes of the calls of a tool whose words fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionRule {
    /// An entry of a list of tools, or `*` for all.
    pub tool: String,
    /// Globs, one a word: of the first words of a command, in which `**` stands for any number of words, or of a path,
    /// which fits with all that lies below it. None fit every call.
    pub words: Vec<String>,
    /// What becomes of them.
    pub action: PermissionAction,
}

/// The rules of one profile, in their order: the first that fits a call decides.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PermissionList {
    /// The rules.
    pub rules: Vec<PermissionRule>,
}

impl std::fmt::Display for PermissionRule {
    /// As one line: `ask run git push`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.action, self.tool)?;
        self.words.iter().try_for_each(|word| write!(f, " {word}"))
    }
}

impl PermissionRule {
    /// How many words rules on a tool may match at most.
    #[must_use]
    pub fn words_max(tool: &str) -> usize {
        match tool {
            RUN => crate::limits::PERMISSION_WORDS_MAX,
            tool if FILE_TOOLS.contains(&tool) => 1,
            _ => 0,
        }
    }

    /// Why a word is no glob, if it is none.
    #[must_use]
    pub fn fault(word: &str) -> Option<String> {
        matcher(word, false).err()
    }
}

/// What matches a word. A glob may be well-formed and nest deeper than what matches it can.
fn matcher(word: &str, is_path: bool) -> Result<GlobMatcher, String> {
    let nesting = word.bytes().scan(0_usize, |depth, byte| {
        *depth =
            if byte == b'{' { *depth + 1 } else { depth.saturating_sub(usize::from(byte == b'}')) };
        Some(*depth)
    });
    if nesting.max().unwrap_or_default() > ALTERNATIVES_DEPTH_MAX {
        return Err(format!("alternatives nest deeper than {ALTERNATIVES_DEPTH_MAX}"));
    }
    let built = GlobBuilder::new(word).literal_separator(is_path).build();
    built.map(|glob| glob.compile_matcher()).map_err(|cause| cause.to_string())
}

/// Braces in braces of a word.
const ALTERNATIVES_DEPTH_MAX: usize = 16;

/// The rules on the tools of one agent, ready to decide.
#[derive(Debug, Default)]
pub struct Permissions(Vec<Vec<ReadyRule>>);

/// A rule with its globs; none for what is no glob, of which nobody knows that it does not fit.
#[derive(Debug)]
struct ReadyRule {
    rule: PermissionRule,
    globs: Vec<Option<GlobMatcher>>,
}

impl Permissions {
    /// Those of these lists: the agent's own, and those of the agents above it.
    #[must_use]
    pub fn of(lists: &[PermissionList]) -> Self {
        let ready = |list: &PermissionList| list.rules.iter().map(ReadyRule::of).collect();
        Self(lists.iter().map(ready).collect())
    }

    /// The rule that decides a call: the strictest of the first that fits in each list. None when the call is made
    /// without a question. `words` are the program and its arguments of `run`, and the path of a tool for files; none
    /// when they cannot be read.
    #[must_use]
    pub fn decisive(&self, tool: &str, words: Option<&[String]>) -> Option<&PermissionRule> {
        let first = |list: &'_ Vec<ReadyRule>| list.iter().position(|it| it.covers(tool, words));
        let fitting = self.0.iter().filter_map(|list| Some(&list[first(list)?].rule));
        let rule = fitting.max_by_key(|rule| rule.action)?;
        (rule.action != PermissionAction::Allow).then_some(rule)
    }

    /// Whether some rule is on certain paths of a tool.
    #[must_use]
    pub fn restricts_paths(&self, tool: &str) -> bool {
        self.0.iter().flatten().any(|it| it.rule.tool == tool && !it.rule.words.is_empty())
    }
}

impl ReadyRule {
    fn of(rule: &PermissionRule) -> Self {
        let is_path = rule.tool != RUN;
        let glob = |word: &String| {
            let word = if is_path { word.trim_end_matches('/') } else { word };
            matcher(word, is_path).ok()
        };
        Self { globs: rule.words.iter().map(glob).collect(), rule: rule.clone() }
    }

    /// Whether it is about this call. Of words that cannot be read nobody knows that they do not fit.
    fn covers(&self, tool: &str, words: Option<&[String]>) -> bool {
        let own = self.rule.tool.as_str();
        let is_of_tool = own == tool || own == EVERY_TOOL || mcp::covers(own, tool);
        let fits = |words: &[String]| match tool {
            RUN => self.fits_command(words),
            _ => words.iter().all(|path| self.fits_path(path)),
        };
        let unread = self.rule.action != PermissionAction::Allow;
        is_of_tool && (self.globs.is_empty() || words.map_or(unread, fits))
    }

    /// Whether a command begins with its words; the program may be named with its directory.
    fn fits_command(&self, words: &[String]) -> bool {
        // How many of the words the globs so far may have taken.
        let mut taken = vec![false; words.len() + 1];
        taken[0] = true;
        for (text, glob) in self.rule.words.iter().zip(&self.globs) {
            let mut next = vec![false; taken.len()];
            for at in (0..taken.len()).filter(|at| taken[*at]) {
                if text == ANY_WORDS {
                    next[at..].fill(true);
                    break;
                }
                let Some(word) = words.get(at) else { continue };
                let name = word.rsplit('/').next().filter(|_| at == 0);
                let mut forms = [Some(word.as_str()), name].into_iter().flatten();
                next[at + 1] = forms.any(|word| fits(glob.as_ref(), word));
            }
            taken = next;
        }
        taken.contains(&true)
    }

    /// Whether a path is what its globs name, or below it.
    fn fits_path(&self, path: &str) -> bool {
        let ends = path.char_indices().filter(|(at, letter)| *at > 0 && *letter == '/');
        let above: Vec<&str> = ends.map(|(at, _)| &path[..at]).chain([path]).collect();
        self.globs.iter().all(|glob| above.iter().any(|path| fits(glob.as_ref(), path)))
    }
}

fn fits(glob: Option<&GlobMatcher>, word: &str) -> bool {
    glob.is_none_or(|glob| glob.is_match(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(rules: &[(&str, &[&str], PermissionAction)]) -> PermissionList {
        let rule = |(tool, words, action): &(&str, &[&str], PermissionAction)| PermissionRule {
            tool: (*tool).to_owned(),
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            action: *action,
        };
        PermissionList { rules: rules.iter().map(rule).collect() }
    }

    fn action(lists: &[PermissionList], tool: &str, words: Option<&str>) -> PermissionAction {
        let words = words.map(|text| text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let permissions = Permissions::of(lists);
        let rule = permissions.decisive(tool, words.as_deref());
        rule.map_or(PermissionAction::Allow, |rule| rule.action)
    }

    use PermissionAction::{Allow, Ask, Deny};

    #[test]
    fn first_fitting_rule_of_a_list_decides() {
        let lists = [list(&[
            ("run", &["git", "push", "origin", "fix/*"], Allow),
            ("run", &["git", "**", "push"], Ask),
            ("run", &["rm"], Deny),
            ("write", &["secrets"], Deny),
            ("edit", &["**/*.lock"], Ask),
            ("agent_spawn", &[], Ask),
            ("mcp:issues:read", &[], Allow),
            ("mcp:issues", &[], Deny),
        ])];
        for (tool, words, expected) in [
            ("run", "git push origin fix/a", Allow),
            ("run", "git push origin fix/a/b --force", Allow),
            ("run", "git push origin main", Ask),
            ("run", "/usr/bin/git push", Ask),
            ("run", "git -C there push", Ask),
            ("run", "git status", Allow),
            ("run", "git", Allow),
            ("run", "rm", Deny),
            ("run", "./rm -r x", Deny),
            ("run", "echo rm", Allow),
            ("run", "rmdir x", Allow),
            ("write", "secrets", Deny),
            ("write", "secrets/a/b", Deny),
            ("write", "secrets2", Allow),
            ("write", "a/secrets", Allow),
            ("read", "secrets/a", Allow),
            ("edit", "Cargo.lock", Ask),
            ("edit", "a/b.lock", Ask),
            ("edit", "a/b.rs", Allow),
        ] {
            assert_eq!(action(&lists, tool, Some(words)), expected, "{tool} {words}");
        }
        assert_eq!(action(&lists, "agent_spawn", None), Ask);
        for (tool, expected) in [("read", Allow), ("create", Deny)] {
            assert_eq!(action(&lists, &format!("mcp:issues:{tool}"), None), expected, "{tool}");
        }
        assert_eq!(action(&lists, "mail_send", None), Allow);
        assert_eq!(action(&[], "run", Some("rm")), Allow);
    }

    #[test]
    fn glob_that_nests_too_deep_is_a_fault() {
        let nested = |depth: usize| format!("{}a{}", "{".repeat(depth), "}".repeat(depth));
        assert_eq!(PermissionRule::fault(&nested(ALTERNATIVES_DEPTH_MAX)), None);
        let fault = PermissionRule::fault(&nested(ALTERNATIVES_DEPTH_MAX + 1)).unwrap();
        assert_eq!(fault, "alternatives nest deeper than 16");
        // What an older version took is none that is known not to fit.
        let lists = [list(&[("run", &[&nested(2_040)], Deny)])];
        assert_eq!(action(&lists, "run", Some("x")), Deny);
    }

    #[test]
    fn unreadable_words_fit_every_rule_that_restricts() {
        let lists = [list(&[("run", &["ls"], Allow), ("run", &["git", "push"], Ask)])];
        assert_eq!(action(&lists, "run", None), Ask);
        assert_eq!(action(&lists, "read", None), Allow);
        let lists = [list(&[("run", &[], Allow), ("run", &["git", "push"], Ask)])];
        assert_eq!(action(&lists, "run", None), Allow, "everything was allowed before");
    }

    #[test]
    fn strictest_of_several_lists_decides() {
        let above = list(&[("run", &["git"], Ask), ("*", &[], Deny)]);
        let own = list(&[("run", &["git", "push"], Deny), ("*", &[], Allow)]);
        let lists = [above, own];
        for (words, expected) in [("git push", Deny), ("git log", Ask), ("ls", Deny)] {
            assert_eq!(action(&lists, "run", Some(words)), expected, "{words}");
        }
        assert_eq!(action(&lists[1..], "run", Some("ls")), Allow);
    }

    #[test]
    fn rule_is_printed_as_one_line() {
        let rules = list(&[("run", &["git", "push"], Ask), ("*", &[], Deny)]).rules;
        assert_eq!(rules[0].to_string(), "ask run git push");
        assert_eq!(rules[1].to_string(), "deny *");
        assert!(PermissionRule::fault("[").is_some() && PermissionRule::fault("a*").is_none());
    }
}
