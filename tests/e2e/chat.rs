//! A chat in a real terminal, as people use it: lines are edited and remembered, turns go on above the line, and
//! commands do what the command line does.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};
use tetrarch_tests::Fleet;

use crate::acting;
use crate::roster::{on_screen, told};

const SIZE: &str = "100x40";

/// A project `desk` whose agents are steered to their end.
fn desk(fleet: &Fleet, act: &[&str]) {
    fleet.ok(["project", "create", "desk"]);
    let profile = json!({"name": "default", "argv": acting(act), "wall": "120s"});
    let file = fleet.file("default.json", &profile.to_string());
    fleet.ok(["profile", "apply", "desk", file.to_str().unwrap()]);
}

fn talk(fleet: &Fleet, steps: &Value, args: &[&str]) -> Value {
    let told = told(on_screen(fleet, SIZE, steps, args));
    assert_eq!((&told["code"], &told["kept"]), (&json!(0), &json!(true)), "{told}");
    told
}

/// The lines of a screen with anything on them.
fn lines(screen: &Value) -> Vec<&str> {
    screen.as_str().unwrap().lines().filter(|line| !line.is_empty()).collect()
}

/// Where what was typed is kept.
fn remembered(fleet: &Fleet) -> PathBuf {
    fleet.data_dir().join("chat/ada")
}

#[test]
fn lines_are_edited_and_a_paste_is_one_turn() {
    let fleet = Fleet::up();
    desk(&fleet, &["helm", fleet.cwd().join("witness").to_str().unwrap()]);
    let pasted = "\u{1b}[200~open the gate\nof the garden\u{1b}[201~";
    let steps = json!([
        // The cursor goes back for the letter that was left out.
        {"see": "you>", "type": "helo\u{1b}[Dl\r"},
        {"see": "Say what you want done", "type": "taken back\u{3}"},
        {"see": "you> taken back", "type": "/nope\r"},
        {"see": ["unknown command /nope; commands: /help, /status", "/help says what each does"], "type": pasted},
        {"see": "of the garden", "type": "\r"},
        {"see": "delegated to W:", "type": "half a li"},
        // What goes on is printed above the line that is edited.
        {"see": ["still at delegation", "you> half a li"], "type": "\u{15}/steer T1.1 end\r"},
        {"see": ["queued ", "delivered ", "\"epoch\":1"], "type": "\u{1b}[A\u{1b}[A"},
        {"see": "you> open the gate", "type": "\u{3}"},
        {"see": "you>", "type": "\u{3}"},
    ]);
    let told = talk(&fleet, &steps, &["chat", "--project", "desk"]);
    let screen = &told["screens"][6];
    assert_eq!(lines(screen).last(), Some(&"you> half a li"), "{screen}");
    let edited = lines(screen).iter().filter(|line| line.contains("half a li")).count();
    assert_eq!(edited, 1, "the line stands below all and nowhere else: {screen}");
    let said = fleet.json(&["chat", "--transcript"]);
    let said: Vec<&str> =
        said.as_array().unwrap().iter().map(|turn| turn["text"].as_str().unwrap()).collect();
    assert_eq!(said, ["hello", "open the gate\nof the garden"]);

    let kept = std::fs::metadata(remembered(&fleet)).unwrap().permissions().mode() & 0o777;
    assert_eq!(kept, 0o600, "{kept:o}");
    let again = json!([
        {"see": "you>", "type": "\u{1b}[A"},
        {"see": "you> /steer T1.1 end", "type": "\u{15}\u{4}"},
    ]);
    talk(&fleet, &again, &["chat"]);
}

#[test]
fn commands_of_a_chat_do_what_the_command_line_does() {
    let fleet = Fleet::up();
    desk(&fleet, &["wonder"]);
    let steps = json!([
        {"see": "you>", "type": "/mode\r"},
        {"see": "conversation main is orchestrator; project desk is orchestrator", "type": "/mode tight\r"},
        {"see": "conversation main is tight from your next line on", "type": "/mode fast\r"},
        {"see": "unknown mode", "type": "/stop\r"},
        {"see": "nothing is worked on for this conversation", "type": "choose\r"},
        {"see": "Which one?", "type": "/status\r"},
        {"see": "conversation main: running (conversation) at delegation", "type": "B\r"},
        {"see": "And when?", "type": "/tree\r"},
        {"see": ["IO@ada", "W:", "\"choose\""], "type": "now\r"},
        {"see": "\"which\":\"B\",\"when\":\"now\"", "type": "/help\r"},
        {"see": ["/steer AGENT TEXT", "/quit"], "type": "\u{c}"},
        {"see": "you>", "gone": "Which one?", "type": "another\r"},
        {"see": "Which one?", "type": "/stop\r"},
        {"see": "cancelled", "type": "/quit\r"},
    ]);
    talk(&fleet, &steps, &["chat", "--project", "desk"]);
    let projects = fleet.json(&["project", "list"]);
    assert_eq!(projects[0]["mode"], json!("orchestrator"), "others' work is as it was");
    let said = fleet.json(&["chat", "--transcript"]);
    let modes: Vec<&str> =
        said.as_array().unwrap().iter().map(|turn| turn["mode"].as_str().unwrap()).collect();
    assert_eq!(modes, ["tight", "tight"]);
}

#[test]
fn turn_that_is_left_goes_on_and_input_of_a_pipe_is_not_remembered() {
    let fleet = Fleet::up();
    desk(&fleet, &["helm", fleet.cwd().join("witness").to_str().unwrap()]);
    let steps = json!([
        {"see": "you>", "type": " a line of which nothing is kept\r"},
        {"see": "delegated to W:", "type": "and another\r"},
        // Said above the line, so that the line is edited again.
        {"see": ["queued: 1 before it", "still at delegation"], "type": "\u{4}"},
    ]);
    let told = talk(&fleet, &steps, &["chat", "--project", "desk"]);
    let left = told["left"].as_str().unwrap();
    assert!(left.contains("left running; `tetrarch chat main` goes on"), "{left}");
    let kept = std::fs::read_to_string(remembered(&fleet)).unwrap();
    assert!(kept.contains("and another") && !kept.contains("nothing is kept"), "{kept}");
    let file = fleet.file("lines", "/status\n/mode\n");
    let mut chat = fleet.command(["chat", "other", "--project", "desk"]);
    let piped = chat.stdin(std::fs::File::open(file).unwrap()).output().unwrap();
    let said = String::from_utf8_lossy(&piped.stderr);
    assert!(said.contains("turn 1 of ada's conversation main: running"), "{said}");
    assert!(said.contains("project desk is orchestrator"), "{said}");
    assert_eq!(piped.status.code(), Some(0), "{said}");
    assert_eq!(std::fs::read_to_string(remembered(&fleet)).unwrap(), kept);
}

#[test]
fn paste_that_is_too_long_is_refused_and_the_chat_goes_on() {
    let fleet = Fleet::up();
    desk(&fleet, &["wonder"]);
    let pasted = format!("\u{1b}[200~{}\u{1b}[201~\r", "a line\n".repeat(10_000));
    let steps = json!([
        {"see": "you>", "type": pasted},
        {"see": "69999 bytes are too many; the limit is 8192", "type": "hello\r"},
        {"see": "Say what you want done", "type": "/quit\r"},
    ]);
    talk(&fleet, &steps, &["chat", "--project", "desk"]);
    assert_eq!(fleet.json(&["chat", "--list"])[0]["number"], json!(1));
}
