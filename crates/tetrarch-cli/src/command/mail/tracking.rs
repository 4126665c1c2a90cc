//! What becomes of a message that was sent: its receipts, or that it was set aside (spec 02, Mail).

use std::collections::BTreeSet;
use std::time::Duration;

use tetrarch_bus::mailbox;
use tetrarch_bus::watch::Replies;
use tetrarch_core::duration;
use tetrarch_core::mail::MailBody;
use tetrarch_core::mail::receipt::Stage;

use crate::{CliError, CliResult, Code, HumanClient};

/// What is known of a message that was sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct MailStatus {
    stages: BTreeSet<Stage>,
    /// Why nobody will handle it.
    pub(super) dead: Option<String>,
}

impl MailStatus {
    /// Learns from something that was written to the sender.
    fn learn(&mut self, seq: u64, body: &MailBody) {
        if let MailBody::Receipt(receipt) = body
            && receipt.of.seq == seq
        {
            self.stages.insert(receipt.stage);
        }
        if let MailBody::Dead(dead) = body
            && dead.of.seq == seq
        {
            self.dead = Some(dead.reason.clone());
        }
    }

    fn is_settled(&self) -> bool {
        self.dead.is_some() || self.stages.contains(&Stage::Consumed)
    }

    /// How far it came, in one word.
    pub(super) fn stage(&self) -> &'static str {
        match (&self.dead, self.stages.last()) {
            (Some(_), _) => "dead",
            (None, Some(stage)) => stage.as_str(),
            (None, None) => "stored",
        }
    }

    /// A line for each stage.
    pub(super) fn words(&self) -> String {
        let stages = self.stages.iter().map(|stage| format!("{}\n", stage.as_str()));
        let dead = self.dead.iter().map(|reason| format!("set aside: {reason}\n"));
        stages.chain(dead).collect()
    }

    /// Whether that is what was waited for.
    ///
    /// # Errors
    /// It was set aside, or is not consumed in time.
    pub(super) fn outcome(&self, seq: u64, wait: Option<Duration>) -> CliResult {
        let Some(wait) = wait.filter(|_| !self.stages.contains(&Stage::Consumed)) else {
            return Ok(());
        };
        if let Some(reason) = &self.dead {
            let what = format!("message {seq} will not be handled: {reason}");
            return Err(CliError::new(Code::Denied, what)
                .hint("`tetrarch mail dead` shows it on the machine that runs `tetrarch up`"));
        }
        let what = format!("message {seq} was not consumed within {} ms", wait.as_millis());
        Err(CliError::new(Code::Failed, what)
            .hint("it stays in the inbox; `tetrarch mail list` shows the receipt when it comes"))
    }
}

/// A time to wait, as a duration.
pub(super) fn patience(text: &str) -> Result<Duration, String> {
    duration::parse(text)
        .map(|length| Duration::from_millis(length.0))
        .map_err(|error| error.to_string())
}

/// Waits for what becomes of a message; what came while the connection was lost is looked up at the
/// end.
///
/// # Errors
/// The inbox cannot be read.
pub(super) async fn follow(
    client: &HumanClient,
    mut replies: Replies,
    seq: u64,
    wait: Duration,
) -> CliResult<MailStatus> {
    let mut fate = MailStatus::default();
    let settled = tokio::time::timeout(wait, async {
        while let Some(mail) = replies.next().await {
            fate.learn(seq, &mail.body);
            if fate.is_settled() {
                return;
            }
        }
    });
    // What came until then counts.
    let _in_time = settled.await;
    if !fate.is_settled() {
        for letter in mailbox::read(&client.bus, &client.human).await? {
            if let Ok((mail, _)) = letter.content {
                fate.learn(seq, &mail.body);
            }
        }
    }
    Ok(fate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tetrarch_core::id::{AgentId, Principal};
    use tetrarch_core::mail::receipt::{About, DeadNotice, Receipt};

    fn of(seq: u64) -> About {
        About { seq, message: "m".to_owned(), topic: "info".to_owned() }
    }

    fn receipt(seq: u64, stage: Stage) -> MailBody {
        MailBody::Receipt(Receipt { of: of(seq), stage })
    }

    #[test]
    fn receipt_of_another_message_is_ignored() {
        let wait = Some(Duration::from_secs(1));
        let mut fate = MailStatus::default();
        fate.learn(7, &receipt(8, Stage::Consumed));
        assert_eq!((fate.stage(), fate.words().as_str()), ("stored", ""));
        assert!(fate.outcome(7, None).is_ok() && fate.outcome(7, wait).is_err());
        for _ in 0..2 {
            fate.learn(7, &receipt(7, Stage::Delivered));
        }
        assert_eq!((fate.stage(), fate.words().as_str()), ("delivered", "delivered\n"));
        assert!(!fate.is_settled() && fate.outcome(7, wait).is_err());
        fate.learn(7, &receipt(7, Stage::Consumed));
        assert_eq!(fate.words(), "delivered\nconsumed\n");
        assert!(fate.is_settled() && fate.outcome(7, wait).is_ok());
    }

    #[test]
    fn dead_lettered_message_is_no_success() {
        let (to, reason) = (Principal::Agent(AgentId::Go), "why".to_owned());
        let mut fate = MailStatus::default();
        fate.learn(7, &MailBody::Dead(DeadNotice { of: of(7), to, reason }));
        assert_eq!((fate.stage(), fate.words().as_str()), ("dead", "set aside: why\n"));
        let refused = fate.outcome(7, Some(Duration::from_secs(1))).unwrap_err();
        assert!(refused.to_string().contains("why"), "{refused}");
    }
}
