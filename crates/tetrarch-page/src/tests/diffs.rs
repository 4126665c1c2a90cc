//! Diffs on which people decide: shown whole, or not at all.

use tetrarch_core::change::ChangeStatus;

use super::{change, shown};
use crate::address::PageView;
use crate::render::PageExtra;

#[test]
fn diff_above_the_bound_is_neither_shown_nor_approved() {
    let it = change(ChangeStatus::Proposed);
    let digest = it.made.action.digest();
    for (lines, shown_whole) in [(20_000, true), (20_001, false)] {
        let extra = PageExtra::Diff(digest.clone(), Ok("+x\n".repeat(lines)));
        let html = shown(ChangeStatus::Proposed, &PageView::Change(it.id), &extra);
        assert_eq!(html.contains("name=\"do\" value=\"approve\""), shown_whole, "{lines}");
        assert_eq!(html.contains(&format!("approve or deny {}", it.id)), !shown_whole);
        let spans = html.matches("class=\"good\">+x</span>").count();
        assert_eq!(spans, if shown_whole { lines } else { 0 });
    }
}

#[test]
fn line_of_a_diff_of_any_length_is_shown_whole_and_wraps() {
    let it = change(ChangeStatus::Proposed);
    let line = format!("+x = 1{}eval()", " ".repeat(9_000));
    let extra = PageExtra::Diff(it.made.action.digest(), Ok(format!("{line}\n")));
    assert!(shown(ChangeStatus::Proposed, &PageView::Change(it.id), &extra).contains(&line));
    let css = include_str!("../assets/page.css");
    let rule = css.lines().find(|line| line.starts_with("pre.diff {")).unwrap();
    assert!(rule.contains("white-space: pre-wrap; overflow-wrap: anywhere;"), "{rule}");
    assert!(!rule.contains("overflow-x"), "{rule}");
}
