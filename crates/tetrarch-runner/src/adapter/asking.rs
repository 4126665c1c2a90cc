//! What a program asks before it uses a tool, and who answers: the list of the brief, or people where the list says so.

use tetrarch_core::id::RequestId;
use tetrarch_core::order::RunnerEvent;
use tetrarch_core::permission::PermissionRule;
use tetrarch_core::time::BusTime;

use super::AgentOutput;
use super::event::AskedUse;
use super::permission::{
    ALLOW, ASKS, DENY, ToolRefused, Use, decided, denied, permit, shown_whole,
};
use super::session::{AgentSession, used};

/// Uses of one program that may wait for people.
const ASKED_MAX: usize = 32;
/// Uses that a checkpoint tells of, the latest.
const USING_MAX: usize = 32;

impl AgentSession {
    /// It asks whether it may use a tool: the list answers and the rules on its tools, or people.
    pub(super) fn asks(&mut self, asked: AskedUse) -> AgentOutput {
        let tools = &self.brief.tools;
        let permitted = asked.uses.iter().try_for_each(|what| permit(tools, &asked.tool, what));
        let rule = self.rule(&asked).map(|rule| denied(rule, &asked.tool));
        let permitted = match rule {
            Some(Err(denied)) => return self.granted(&asked, Err(denied)),
            Some(Ok(())) if permitted.is_ok() => None,
            Some(Ok(())) | None => Some(permitted),
        };
        let is_known = !asked.uses.contains(&Use::Unknown);
        let may_ask = is_known && tools.names().any(|name| name == ASKS);
        match permitted {
            Some(Err(_)) if may_ask => {}
            Some(permitted) => return self.granted(&asked, permitted),
            None => {}
        }
        if let Err(refused) = shown_whole(&asked.input.to_string()) {
            return self.granted(&asked, Err(refused));
        }
        if self.asked.len() >= ASKED_MAX {
            let cause = format!("{ASKED_MAX} other uses wait for people");
            return self.granted(&asked, Err(ToolRefused::NotAsked { cause }));
        }
        let number = usize::try_from(self.questions).unwrap_or(usize::MAX);
        let base = format!("{:x}", self.brief.base);
        let id = RequestId::derive(BusTime::default(), &base, "asks", number);
        self.questions += 1;
        self.asked.push_back((id, asked));
        // One at a time, so that an answer is of one use.
        if self.asked.len() == 1 { self.question() } else { AgentOutput::default() }
    }

    /// The strictest of the rules on what is used with it.
    fn rule(&self, asked: &AskedUse) -> Option<&PermissionRule> {
        let calls = asked.uses.iter().flat_map(|what| what.calls(&self.directory, &asked.paths));
        let permissions = &self.brief.permissions;
        let rules = calls.filter_map(|(tool, words)| permissions.decisive(tool, words.as_deref()));
        rules.max_by_key(|rule| rule.action)
    }

    /// The answer to one that was decided.
    fn granted(&mut self, asked: &AskedUse, decided: Result<(), ToolRefused>) -> AgentOutput {
        let mut output = AgentOutput::default();
        match decided {
            Ok(()) => {
                if self.using.len() >= USING_MAX {
                    self.using.remove(0);
                }
                self.using.push(used(&asked.tool, &asked.input));
                output.events.push(self.checkpoint());
                output.and(self.decide(asked, None))
            }
            Err(refused) => {
                let why = refused.to_string();
                output.note = Some(format!("refused {}: {why}", asked.tool));
                output.and(self.decide(asked, Some(&why)))
            }
        }
    }

    /// The question about the first of those that people are to decide.
    fn question(&self) -> AgentOutput {
        let Some((id, asked)) = self.asked.front() else {
            return AgentOutput::default();
        };
        let AskedUse { request, tool, input, .. } = asked;
        // An answer to the same words of another request is no answer to these.
        let by = self.rule(asked).map(|rule| format!("\n[rule: {rule}]")).unwrap_or_default();
        let question = format!("May it use {tool}? {input}{by}\n[request {request}]");
        let options = [ALLOW, DENY].map(str::to_owned).to_vec();
        AgentOutput::plain(RunnerEvent::Ask { id: Some(*id), question, options })
    }

    /// The answer of people to this question, or why they were not asked; none when it does not wait for that.
    pub(crate) fn answered(
        &mut self,
        id: RequestId,
        answer: Result<String, String>,
    ) -> Option<AgentOutput> {
        let (_, asked) = self.asked.pop_front_if(|(first, _)| *first == id)?;
        Some(self.granted(&asked, decided(answer)).and(self.question()))
    }

    /// It does not wait for an answer any more.
    pub(super) fn withdraws(&mut self, request: &str) -> AgentOutput {
        let was_first = self.asked.front().is_some_and(|(_, asked)| asked.request == request);
        self.asked.retain(|(_, asked)| asked.request != request);
        if was_first { self.question() } else { AgentOutput::default() }
    }
}
