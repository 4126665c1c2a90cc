//! What comes next, row by row; that the journal alone gives the same conversation; bounds at both ends.

use super::*;
use crate::converse::recorded::{Gathered, Kept};
use crate::limits::RECORDED_BYTES_MAX;

fn call(id: &str, tool: &str) -> Call {
    Call { id: id.to_owned(), tool: tool.to_owned(), arguments: "{}".to_owned() }
}

fn said(text: &str, calls: &[Call]) -> Reply {
    Reply { text: text.to_owned(), calls: calls.to_vec(), ..Reply::default() }
}

fn effect(call: &Call) -> Effect {
    match call.tool.as_str() {
        "read" => Effect::ReadOnly,
        "note" => Effect::Idempotent,
        _ => Effect::Effectful,
    }
}

fn answer(step: u64, index: u32, text: &str, is_error: bool) -> Recorded {
    Recorded::Answer { step, index, text: text.to_owned(), is_error, letter: 0 }
}

fn heard(text: &str, letter: u64) -> Recorded {
    Recorded::Heard { text: text.to_owned(), letter }
}

/// A conversation and all that it recorded.
struct Held {
    conversation: Conversation,
    recorded: Vec<Recorded>,
}

impl Held {
    fn begin() -> Self {
        Self {
            conversation: Conversation::open("the brief".to_owned(), 0, &[]),
            recorded: Vec::new(),
        }
    }

    fn take(&mut self, recorded: Recorded) {
        self.conversation.apply(&recorded);
        self.recorded.push(recorded);
        let again = Conversation::open("the brief".to_owned(), 0, &self.recorded);
        assert_eq!(again.messages(), self.conversation.messages(), "{:?}", self.recorded);
        assert_eq!(again.next(effect), self.conversation.next(effect), "{:?}", self.recorded);
    }

    fn reply(&mut self, text: &str, calls: &[Call]) {
        let recorded = self.conversation.turn(&said(text, calls));
        self.take(recorded);
    }

    fn next(&self) -> Next {
        self.conversation.next(effect)
    }

    fn due(&self) -> Vec<u32> {
        match self.next() {
            Next::Call(due) => due.iter().map(|due| due.index).collect(),
            other @ (Next::Ask
            | Next::Doubt(..)
            | Next::SpeakOn(_)
            | Next::Spoke(_)
            | Next::GiveUp(_)) => {
                panic!("{other:?}")
            }
        }
    }
}

#[test]
fn only_read_only_calls_run_in_parallel() {
    let mut held = Held::begin();
    assert_eq!(held.next(), Next::Ask);
    let all = [call("a", "read"), call("b", "read"), call("c", "write"), call("d", "read")];
    held.reply("look", &all);
    assert_eq!(held.due(), [0, 1]);
    held.take(answer(1, 1, "two", false));
    assert_eq!(held.due(), [0]);
    held.take(answer(1, 0, "one", false));
    assert_eq!(held.due(), [2]);
    held.take(Recorded::Intent { step: 1, index: 2, tool: "write".to_owned() });
    held.take(answer(1, 2, "written", false));
    held.take(heard("a letter", 0));
    assert_eq!(held.due(), [3], "a letter waits until the calls are answered");
    held.take(answer(1, 3, "four", false));
    assert_eq!(held.next(), Next::Ask);
    let messages = held.conversation.messages();
    let [Message::User(_), Message::Model { .. }, Message::Answers(answers), Message::User(letter)] =
        messages.as_slice()
    else {
        panic!("{messages:?}");
    };
    let texts: Vec<&str> = answers.iter().map(|answer| answer.text.as_str()).collect();
    assert_eq!(texts, ["one", "two", "written", "four"]);
    assert_eq!(letter, "a letter");
    held.reply("done", &[]);
    assert_eq!(held.next(), Next::Spoke("done".to_owned()));
    assert_eq!(held.conversation.last_words(), "done");
    held.take(heard("not yet", 0));
    assert_eq!(held.next(), Next::Ask);
}

#[test]
fn unanswered_call_is_in_doubt_unless_repeatable() {
    for (tool, doubt) in [("write", true), ("note", false), ("read", false)] {
        let mut held = Held::begin();
        held.reply("", &[call("a", tool)]);
        held.take(Recorded::Intent { step: 1, index: 0, tool: tool.to_owned() });
        assert_eq!(matches!(held.next(), Next::Doubt(_, 1)), doubt, "{tool}");
        held.take(Recorded::Intent { step: 1, index: 0, tool: tool.to_owned() });
        assert_eq!(matches!(held.next(), Next::Doubt(_, 2)), doubt, "{tool}");
        held.take(answer(1, 0, "it was made", false));
        assert_eq!(held.next(), Next::Ask, "{tool}");
    }
}

#[test]
fn summary_replaces_earlier_messages() {
    let mut held = Held::begin();
    assert!(!held.conversation.is_full(0), "a brief alone is not summarised");
    held.reply("look", &[call("a", "read")]);
    held.take(answer(1, 0, "one", false));
    held.conversation.weighed(cost::Tokens { input: 70, cached: 0, output: 5 });
    assert_eq!(held.conversation.tokens(), 75);
    assert!(!held.conversation.is_full(100));
    held.conversation.weighed(cost::Tokens { input: 71, cached: 0, output: 5 });
    assert!(held.conversation.is_full(100));
    held.take(Recorded::Summary { step: 1, text: "read one".to_owned(), letter: 0 });
    let messages = held.conversation.messages();
    let [Message::User(text)] = messages.as_slice() else { panic!("{messages:?}") };
    assert!(text.starts_with("the brief\n") && text.ends_with("read one"), "{text}");
    assert!(!held.conversation.is_full(0), "and it is not summarised again at once");
    assert_eq!((held.next(), held.conversation.step()), (Next::Ask, 1));
    assert_eq!(held.conversation.last_words(), "read one");
    held.reply("go on", &[call("a", "read")]);
    assert_eq!(held.conversation.step(), 2, "turns are counted on");
    held.take(answer(1, 0, "an answer of long ago", false));
    assert_eq!(held.due(), [0]);
}

#[test]
fn truncated_answer_is_continued_and_returned_whole() {
    let cut_off = |held: &mut Held, text: &str| {
        let reply = Reply { is_cut: true, ..said(text, &[]) };
        let recorded = held.conversation.turn(&reply);
        held.take(recorded);
    };
    let mut held = Held::begin();
    for turn in 1..=CUT_TURNS_MAX {
        cut_off(&mut held, "half, ");
        if turn == CUT_TURNS_MAX {
            assert!(matches!(held.next(), Next::GiveUp(_)));
            break;
        }
        let Next::SpeakOn(text) = held.next() else { panic!("{:?}", held.next()) };
        held.take(heard("a letter", 0));
        assert_eq!(held.next(), Next::SpeakOn(text.clone()), "a letter is not what is said to it");
        assert!(!held.conversation.is_full(0), "the halves of an answer belong together");
        held.take(heard(&text, 0));
        assert_eq!(held.next(), Next::Ask);
    }
    let mut held = Held::begin();
    cut_off(&mut held, "half, ");
    let Next::SpeakOn(text) = held.next() else { panic!("{:?}", held.next()) };
    held.take(heard(&text, 0));
    held.reply("and half", &[]);
    assert_eq!(held.next(), Next::Spoke("half, and half".to_owned()));
    held.take(heard("not yet", 0));
    held.reply("anew", &[]);
    assert_eq!(held.next(), Next::Spoke("anew".to_owned()));
}

#[test]
fn last_heard_message_is_recovered_from_the_record() {
    let mut held = Held::begin();
    held.take(heard("one", 4));
    held.reply("wait", &[call("a", "note")]);
    held.take(Recorded::Answer {
        step: 1,
        index: 0,
        text: String::new(),
        is_error: false,
        letter: 9,
    });
    held.take(heard("not of the inbox", 0));
    assert_eq!(held.conversation.letter(), 9);
    held.take(Recorded::Summary { step: 1, text: "all".to_owned(), letter: 9 });
    let mut kept = Kept::default();
    held.recorded.iter().cloned().for_each(|it| kept.push(it));
    let mut gathered = Gathered::default();
    gathered.add(kept);
    let last = gathered.into_recorded().iter().map(Recorded::letter).max();
    assert_eq!(last, Some(9), "a summary keeps it");

    let mut kept = Kept::default();
    kept.push(heard("early", 3));
    kept.push(heard(&"x".repeat(RECORDED_BYTES_MAX), 0));
    let mut gathered = Gathered::default();
    gathered.add(kept);
    let last = gathered.into_recorded().iter().map(Recorded::letter).max();
    assert_eq!(last, Some(3), "what is too long keeps it");
}

#[test]
fn consecutive_errors_and_turns_are_bounded() {
    let mut held = Held::begin();
    for turn in 1..=u64::from(FRUITLESS_TURNS_MAX) {
        assert_eq!(held.next(), Next::Ask);
        held.reply("", &[call("a", "read"), call("b", "read")]);
        held.take(answer(turn, 0, "no", true));
        // One that worked counts for the turn.
        held.take(answer(turn, 1, "no", turn != 1));
    }
    assert_eq!(held.next(), Next::Ask);
    let turn = u64::from(FRUITLESS_TURNS_MAX) + 1;
    held.reply("", &[call("a", "read")]);
    held.take(answer(turn, 0, "no", true));
    assert!(matches!(held.next(), Next::GiveUp(_)));

    let mut long = Conversation::open(String::new(), 0, &[]);
    for step in [TURNS_MAX - 1, TURNS_MAX] {
        let calls = vec![call("a", "read")];
        long.apply(&Recorded::Turn { step, text: String::new(), calls, is_cut: false });
        long.apply(&answer(step, 0, "one", false));
        assert_eq!(matches!(long.next(effect), Next::GiveUp(_)), step == TURNS_MAX);
    }
}

#[test]
fn turn_is_bounded_and_each_call_has_a_unique_name() {
    let conversation = Conversation::open(String::new(), 0, &[]);
    let mut many = vec![call("x", "read"); CALLS_PER_TURN_MAX + 1];
    many[1].id = String::new();
    many[2].arguments = "y".repeat(TURN_BYTES_MAX + 1);
    let text = "é\u{1}".repeat(TURN_BYTES_MAX);
    let recorded = conversation.turn(&said(&text, &many));
    assert!(recorded.bytes() <= TURN_BYTES_MAX + 1_024, "{}", recorded.bytes());
    let Recorded::Turn { step: 1, text, calls, is_cut: false } = recorded else {
        panic!("{recorded:?}")
    };
    assert!(text.contains("bytes are left out") && !text.contains('\u{1}'));
    assert_eq!(calls.len(), CALLS_PER_TURN_MAX);
    let ids: std::collections::BTreeSet<&str> = calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids.len(), calls.len());
    assert!(calls[2].arguments.starts_with('['), "{}", calls[2].arguments);
    let Recorded::Turn { text, .. } = conversation.turn(&said("", &[])) else { panic!() };
    assert_eq!(text, NO_WORDS);
    assert_eq!(fitting("short"), "short");
    let long = fitting(&"é".repeat(TOOL_ANSWER_BYTES_MAX));
    assert!(long.len() <= TOOL_ANSWER_BYTES_MAX && long.contains("bytes are left out"));
}

#[test]
fn resumed_history_starts_at_the_last_summary_and_is_bounded() {
    let heard = |text: &str| heard(text, 0);
    let summary = || Recorded::Summary { step: 1, text: "all".to_owned(), letter: 0 };
    let turn =
        |step| Recorded::Turn { step, text: "t".to_owned(), calls: Vec::new(), is_cut: false };
    let kept = |all: &[Recorded]| {
        let mut kept = Kept::default();
        all.iter().cloned().for_each(|it| kept.push(it));
        kept
    };
    let mut gathered = Gathered::default();
    assert!(!gathered.add(kept(&[heard("c")])));
    assert!(gathered.add(kept(&[heard("a"), summary(), heard("b")])));
    assert!(gathered.add(kept(&[heard("before")])));
    assert_eq!(gathered.into_recorded(), [summary(), heard("b"), heard("c")]);

    let big = heard(&"x".repeat(RECORDED_BYTES_MAX - 1));
    let mut gathered = Gathered::default();
    assert!(!gathered.add(kept(&[turn(3), big.clone()])));
    assert!(gathered.add(kept(&[turn(1), heard("too much")])));
    let all = gathered.into_recorded();
    assert!(matches!(&all[0], Recorded::Heard { text, .. } if text.contains("too long")));
    assert_eq!(all[1..], [turn(3), big.clone()], "just as much as there is room for");
    let mut gathered = Gathered::default();
    assert!(gathered.add(kept(&[turn(1), answer(1, 0, "one", false), turn(2), big.clone()])));
    let all = gathered.into_recorded();
    assert_eq!(all[1..], [turn(2), big]);
    assert!(matches!(&all[0], Recorded::Heard { text, .. } if text.contains("too long")));
}
