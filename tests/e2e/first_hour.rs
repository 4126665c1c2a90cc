//! docs/first-hour.md is true: every line that is typed in it is typed here, in a fresh repository and
//! by somebody who has nothing, and what it says is read comes.

use tetrarch_tests::{Fleet, binary};

use crate::workspace;

/// The directory of the repository that is worked on.
const REPOSITORY: &str = "shop";
/// Stands for what differs from one time to the next: within a line for some of it, alone for lines.
const VARIES: &str = "...";

/// A block of the document: what stands after its fence, and its lines.
struct Block<'a> {
    what: &'a str,
    lines: Vec<&'a str>,
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let fenced = text.split("\n```").skip(1).step_by(2);
    fenced
        .map(|block| {
            let (what, lines) = block.split_once('\n').unwrap_or((block, ""));
            Block { what: what.trim(), lines: lines.lines().collect() }
        })
        .collect()
}

/// Whether lines that were read are those that are written.
fn agree(written: &[&str], read: &[&str]) -> bool {
    match written {
        [] => read.is_empty(),
        [VARIES, rest @ ..] => (0..=read.len()).any(|from| agree(rest, &read[from..])),
        [line, rest @ ..] => match read {
            [first, more @ ..] => agrees(line, first) && agree(rest, more),
            [] => false,
        },
    }
}

/// The same for one line; how wide its columns are depends on what stands in them.
fn agrees(written: &str, read: &str) -> bool {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (written, read) = (plain(written), plain(read));
    let mut parts = written.split(VARIES);
    let Some(mut rest) = parts.next().and_then(|first| read.strip_prefix(first)) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
    for part in between {
        let Some((_, after)) = rest.split_once(*part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

#[test]
fn first_hour_tutorial_works_as_written() {
    let text = std::fs::read_to_string(workspace().join("docs/first-hour.md")).unwrap();
    let own = binary().canonicalize().unwrap();
    let path = format!("{}:{}", own.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let fleet = Fleet::prepared().with_binary("/bin/sh".into()).with_env("PATH", path);
    std::fs::create_dir(fleet.cwd().join(REPOSITORY)).unwrap();
    let mut typed = 0;
    for block in blocks(&text) {
        match block.what.split_once(' ') {
            Some((_, name)) => {
                fleet.file(&format!("{REPOSITORY}/{name}"), &(block.lines.join("\n") + "\n"));
            }
            None if block.what == "console" => typed += console(&fleet, &block.lines),
            None => panic!("a block of {:?} is neither typed nor a file", block.what),
        }
    }
    assert!(typed > 5, "{typed}");
}

/// Types each line after a `$` and compares what comes with the lines below it.
fn console(fleet: &Fleet, lines: &[&str]) -> usize {
    let typed: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].starts_with("$ ")).collect();
    for (index, at) in typed.iter().enumerate() {
        let end = typed.get(index + 1).copied().unwrap_or(lines.len());
        let line = lines[*at].trim_start_matches("$ ");
        let ended = fleet.run(["-c".to_owned(), format!("cd {REPOSITORY} && {{ {line}\n}} 2>&1")]);
        // The fleet of a run may be gone before the last connection of it notices.
        let of_program = |line: &&str| !line.contains("lost the bus");
        let read: Vec<&str> = ended.out.lines().filter(of_program).collect();
        let written = &lines[at + 1..end];
        assert!(
            agree(written, &read),
            "$ {line}\n--- written\n{}\n--- read [{:?}]\n{}",
            written.join("\n"),
            ended.code,
            ended.out
        );
    }
    typed.len()
}

#[test]
fn only_variable_parts_of_the_tutorial_may_differ() {
    assert!(agree(&["a", "...", "d"], &["a", "b", "c", "d"]) && agree(&["..."], &[]));
    assert!(!agree(&["a"], &["a", "b"]) && !agree(&["a", "..."], &["b"]));
    assert!(agrees("T1.1  done  in ... s", "T1.1 done in 0.04 s") && agrees("a", " a "));
    assert!(!agrees("in ... s", "in 0.04") && !agrees("done", "not done") && !agrees("a...b", "a"));
}
