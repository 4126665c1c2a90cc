//! Every form of subject, built and read; every wrong token named.

use proptest::prelude::*;

use super::form::FORMS;
use super::key::{parse_record_key, record_key};
use super::*;

const U: &str = "01JD8Z5W6T4QK3M9X2V7B1N0AC";

/// One text for each row of the public table, in its order; the last is the second form of the
/// same row where there is one.
fn samples() -> Vec<(usize, String)> {
    let texts = [
        (0, format!("spawn.request.goal_{U}.S1_2_3.PO-demo")),
        (0, format!("spawn.request.goal_{U}.-.human:ada")),
        (1, format!("spawn.request.goal_{U}.T1_2.S:api:{U}.h1")),
        (2, "op.host.join.HO@a".to_owned()),
        (2, "op.todo.graph_insights.human:ada".to_owned()),
        (2, "op.brand.new.PO-demo".to_owned()),
        (3, format!("op.agent.status.W:{U}.h1")),
        (4, "report.HO@a".to_owned()),
        (5, format!("report.R:api:{U}.h1")),
        (6, "mail.PO-demo.GO".to_owned()),
        (6, "mail.human:ada.GO".to_owned()),
        (7, format!("mail.PO-demo.W:{U}.h1")),
        (8, "ctl.HO@a.GO".to_owned()),
        (9, format!("ctl.W:{U}.PO-demo.h1")),
        (10, format!("plan.created.goal_{U}")),
        (11, format!("plan.updated.goal_{U}")),
        (12, format!("plan.review_needed.goal_{U}")),
        (13, "hb.IO@ada".to_owned()),
        (14, format!("cursor.W:{U}")),
        (15, format!("run.W:{U}.run_{U}")),
        (16, format!("stream.PO-demo.run_{U}")),
        (17, format!("$KV.STATE.agent.S/api/{U}")),
        (17, "$KV.STATE.agent.HO=a".to_owned()),
        (17, "$KV.STATE.agent.GO".to_owned()),
        (17, "$KV.STATE.host.a".to_owned()),
        (17, "$KV.STATE.project.demo".to_owned()),
        (17, "$KV.STATE.profile.demo.default".to_owned()),
        (17, format!("$KV.STATE.run.run_{U}")),
        (17, format!("$KV.STATE.run_state.run_{U}")),
        (17, format!("$KV.STATE.goal.goal_{U}")),
        (17, format!("$KV.STATE.goal_state.goal_{U}")),
        (17, format!("$KV.STATE.plan.goal_{U}")),
        (17, format!("$KV.STATE.node.goal_{U}.S1_2_3")),
        (17, format!("$KV.STATE.node_state.goal_{U}.P1")),
        (17, format!("$KV.STATE.assignment.asg_{U}")),
        (17, format!("$KV.STATE.dispatch.dsp_{U}")),
        (17, format!("$KV.STATE.planning.dsp_{U}")),
        (17, format!("$KV.STATE.question.qst_{U}")),
        (17, format!("$KV.STATE.crystallization.goal_{U}.S1_2_3")),
        (17, format!("$KV.STATE.crystallization.goal_{U}.-")),
        (17, format!("$KV.STATE.schedule.sch_{U}")),
        (17, format!("$KV.STATE.reservation.rsv_{U}")),
        (17, format!("$KV.STATE.change.chg_{U}")),
        (17, format!("$KV.STATE.decision.{U}")),
        (18, "$KV.LEASES.GO".to_owned()),
        (19, "$KV.LEASES.BUS".to_owned()),
        (20, "$KV.LEASES.HO=a".to_owned()),
        (21, "ledger.main".to_owned()),
        (22, "dead.REQUESTS".to_owned()),
    ];
    texts.into()
}

#[test]
fn every_subject_form_round_trips() {
    let mut seen = [false; FORMS.len()];
    for (row, text) in samples() {
        let subject: Subject = text.parse().unwrap();
        assert_eq!(subject.to_string(), text);
        let form = FORMS[row].subject;
        let words = form.replace("<name>", "<family>.<verb>").replace("<kind>.<key>", "");
        let count = words.split('.').filter(|word| !word.is_empty()).count();
        if row == 17 {
            assert!(text.starts_with("$KV.STATE."));
        } else {
            assert_eq!(text.split('.').count(), count, "{form}: {text}");
        }
        let fixed: Vec<&str> = form.split(['<', '.']).take(1).collect();
        assert!(text.starts_with(fixed[0]), "{form}: {text}");
        seen[row] = true;
    }
    assert_eq!(seen, [true; FORMS.len()]);
    assert_eq!("$KV.STATE.meta".parse::<Subject>().unwrap(), Subject::StateMeta);
    assert_eq!(Subject::StateMeta.to_string(), "$KV.STATE.meta");
    for origin in Origin::ALL {
        let subject = Subject::Dead(origin);
        assert_eq!(subject.to_string().parse::<Subject>().unwrap(), subject);
    }
}

#[test]
fn subject_parts_are_what_they_say() {
    let text = format!("spawn.request.goal_{U}.S1_2_3.S:api:{U}.h1");
    let Subject::SpawnRequest { node, from, via, .. } = text.parse().unwrap() else {
        panic!("{text} is a spawn request");
    };
    assert_eq!(node.unwrap().to_string(), "S1.2.3");
    assert_eq!(from.to_string(), format!("S:api:{U}"));
    assert_eq!(via.unwrap().as_str(), "h1");
    let Subject::Op { op, via, .. } = "op.host.join.HO@a.a".parse().unwrap() else {
        panic!("an operation");
    };
    assert_eq!((op.as_str(), op.is_known()), ("host.join", true));
    assert_eq!(via.unwrap().as_str(), "a");
    let Subject::Op { op, .. } = "op.brand.new.GO".parse().unwrap() else {
        panic!("an operation");
    };
    assert!(!op.is_known());
    for name in OPS {
        assert_eq!(name.parse::<OpName>().unwrap().as_str(), name);
    }
}

#[test]
fn wrong_token_is_named_with_its_position() {
    let cases = [
        ("", 1),
        ("nothing.here", 1),
        ("ledger.other", 2),
        ("spawn.question.goal_x.-.GO", 2),
        ("spawn.request.goal_x.-.GO", 3),
        ("op.Host.join.GO", 2),
        ("op.host.jo-in.GO", 3),
        ("op.host.join.nobody", 4),
        ("report.PO-demo.h@", 3),
        ("mail.GO.actor:system:overseer", 3),
        ("mail.x.GO", 2),
        ("plan.deleted.goal_01JD8Z5W6T4QK3M9X2V7B1N0AC", 2),
        ("hb.W:01jd8z5w6t4qk3m9x2v7b1n0ac", 2),
        ("cursor.human:ada", 2),
        ("run.x.run_01JD8Z5W6T4QK3M9X2V7B1N0AC", 2),
        ("run.PO-demo.01JD8Z5W6T4QK3M9X2V7B1N0AC", 3),
        ("dead.NOTHING", 2),
        ("$KV.OTHER.GO", 2),
        ("$KV.LEASES.HO@a", 3),
        ("$KV.LEASES.HO=a@", 3),
        ("$KV.STATE.thing.x", 3),
        ("$KV.STATE.agent.HO@a", 4),
        ("$KV.STATE.node.goal_01JD8Z5W6T4QK3M9X2V7B1N0AC.S1-2", 5),
        ("$KV.STATE.node.goal_01JD8Z5W6T4QK3M9X2V7B1N0AC.-", 5),
    ];
    for (text, expected) in cases {
        match text.parse::<Subject>() {
            Err(SubjectError::Token { position, token, .. }) => {
                assert_eq!(position, expected, "{text}");
                assert_eq!(Some(token.as_str()), text.split('.').nth(expected - 1), "{text}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    let spawn = format!("spawn.request.goal_{U}.S1.2.3.GO.h1.x");
    for text in ["ledger", "ledger.main.x", "mail.GO", "op.host.join", "hb.GO.x", &spawn] {
        assert!(matches!(text.parse::<Subject>(), Err(SubjectError::Count { .. })), "{text}");
    }
}

#[test]
fn sender_of_a_wrong_request_is_still_parsed() {
    let read = |text: &str| WrongRequest::of(text).map(|found| (found.from.to_string(), found.via));
    let plain = |from: &str| Some((from.to_owned(), None));
    assert_eq!(read("spawn.request.epic-1.-.PO-demo"), plain("PO-demo"));
    assert_eq!(read("op.Host.join.human:ada"), plain("human:ada"));
    let via = Some(HostName::new("h1").unwrap());
    assert_eq!(read("spawn.request.x.y.PO-demo.h1"), Some(("PO-demo".to_owned(), via)));
    assert_eq!(read("spawn.request.epic-1.-.nobody"), None);
    assert_eq!(read("mail.x.GO"), None);
}

#[test]
fn patterns_match_the_subjects_they_name() {
    let ada: Principal = "human:ada".parse().unwrap();
    assert_eq!(Subject::inbox(Lane::Mail, &ada), "mail.human:ada.>");
    assert_eq!(Subject::inbox(Lane::Ctl, &AgentId::Go.into()), "ctl.GO.>");
    let epic: EpicId = format!("goal_{U}").parse().unwrap();
    assert_eq!(KeyKind::Node.pattern(), "$KV.STATE.node.>");
    assert_eq!(KeyKind::NodeState.pattern_of(epic), format!("$KV.STATE.node_state.goal_{U}.>"));
}

proptest! {
    #[test]
    fn any_text_is_a_round_tripping_subject_or_refused(
        text in "(spawn\\.request|op|report|mail|ctl|plan|hb|\\$KV\\.STATE|.{0,8})(\\.[A-Za-z0-9:@=/_>*-]{0,30}){0,6}"
    ) {
        if let Ok(subject) = text.parse::<Subject>() {
            prop_assert_eq!(subject.to_string(), text);
        }
    }

    #[test]
    fn any_text_is_a_key_or_refused(text in ".{0,60}") {
        if let Ok(key) = parse_record_key(&text) {
            prop_assert_eq!(record_key(&key), text);
        }
    }
}

#[test]
fn host_may_not_speak_for_holders_of_own_credentials() {
    let forms = ["op.goal.cancel.{}.h1", "report.{}.h1", "mail.PO-demo.{}.h1", "ctl.PO-demo.{}.h1"];
    let spawn = format!("spawn.request.goal_{U}.-.{{}}.h1");
    for form in forms.into_iter().chain([spawn.as_str()]) {
        for refused in ["human:ada", "GO", "HO@h2"] {
            let text = form.replace("{}", refused);
            let error = text.parse::<Subject>().unwrap_err().to_string();
            assert!(error.contains("an agent that a host runs"), "{text}: {error}");
            assert_eq!(WrongRequest::of(&text), None, "{text}: they are not told");
        }
        for taken in ["HO@h1", "PO-demo", "IO@ada"] {
            form.replace("{}", taken).parse::<Subject>().unwrap();
        }
    }
}
