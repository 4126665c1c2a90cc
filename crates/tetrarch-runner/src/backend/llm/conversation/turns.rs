//! Turns of the model: what one may cost is set aside before it is asked, and what it took is counted (spec 06,
//! Budgets).

use tetrarch_core::brief::{Outcome, RunResult};
use tetrarch_core::budget::Spend;
use tetrarch_core::converse::cost::{Tokens, tokens_of};
use tetrarch_core::converse::{Message, Reply};
use tetrarch_core::order::RunnerEvent;
use tetrarch_model::ModelRequest;

use super::{ConversationEnd, LlmConversation};
use crate::backend::ending::ConversationResult;
use crate::backend::llm::speaking::{NoAnswer, Tries, TurnContext};

impl LlmConversation {
    /// What a call of the model costs when it reads all there is and writes so much.
    fn worst(&self, output: u64) -> Spend {
        let tokens = Tokens { input: self.conversation.tokens(), cached: 0, output };
        self.spend(tokens)
    }

    fn spend(&self, tokens: Tokens) -> Spend {
        let cost_micro = self.price.map_or(0, |price| price.of(tokens));
        Spend { tokens: tokens.input.saturating_add(tokens.output), cost_micro, turns: 1 }
    }

    /// Sets aside what a call may cost at worst. A call that does not fit is not made.
    async fn set_aside(&mut self) -> Result<String, ConversationEnd> {
        self.asked += 1;
        let call = format!("turn-{}", self.asked);
        let worst = self.worst(self.output_tokens.into());
        self.teller.tell(RunnerEvent::SetAside { call: call.clone(), worst }).await;
        match self.input.verdict(&call).await {
            Ok(Ok(())) => Ok(call),
            Ok(Err(why)) => {
                let result = RunResult::ended(Outcome::BudgetExceeded, why);
                let result = self.with_partial(result);
                Err(ConversationEnd::Result(Box::new(ConversationResult {
                    result,
                    files: Vec::new(),
                })))
            }
            Err(halt) => {
                self.spent(call, Spend::default()).await;
                Err(halt.into())
            }
        }
    }

    async fn spent(&self, call: String, used: Spend) {
        self.teller.tell(RunnerEvent::Spent { call, used }).await;
    }

    /// Says something to the model and counts what it took.
    pub(super) async fn speak(
        &mut self,
        messages: &[Message],
        may_call: bool,
    ) -> Result<Reply, ConversationEnd> {
        let mut tries = Tries::new(self.teller.run(), self.conversation.step());
        let spoken = self.try_again(&mut tries, messages, may_call).await;
        tries.over(&self.teller).await;
        spoken
    }

    /// Asks until there is a whole answer, or none is to be expected. Each time its cost is set aside anew: what was
    /// heard and broke off has its price too.
    async fn try_again(
        &mut self,
        tries: &mut Tries,
        messages: &[Message],
        may_call: bool,
    ) -> Result<Reply, ConversationEnd> {
        loop {
            tries.pause(&mut self.input).await?;
            let call = self.set_aside().await?;
            let request = ModelRequest {
                system: &self.system,
                messages,
                tools: &self.tools,
                may_call,
                max_output_tokens: self.output_tokens,
                json_only: false,
            };
            let turn = TurnContext {
                model: &self.model,
                teller: &self.teller,
                within: self.turn_within,
                key_from: &self.key_from,
            };
            let broke_off = match turn.ask(&mut self.input, &request, tries).await {
                Ok(reply) => return Ok(self.take(call, reply).await),
                Err(NoAnswer::Halt(halt)) => {
                    // It was heard, and perhaps answered: what it read counts.
                    self.spent(call, self.worst(0)).await;
                    return Err(ConversationEnd::Halt(halt));
                }
                Err(NoAnswer::Broke(broke_off)) => broke_off,
            };
            let used = if broke_off.heard { self.worst(0) } else { Spend::default() };
            self.spent(call, used).await;
            if let Some(why) = broke_off.ends {
                return Err(self.fails(&why));
            }
        }
    }

    /// Counts an answer.
    async fn take(&mut self, call: String, mut reply: Reply) -> Reply {
        if reply.tokens == Tokens::default() {
            // Whoever does not count is counted.
            let arguments: usize = reply.calls.iter().map(|call| call.arguments.len()).sum();
            reply.tokens.input = self.conversation.tokens();
            reply.tokens.output = tokens_of(reply.text.len() + arguments);
        }
        self.spent(call, self.spend(reply.tokens)).await;
        self.count(reply.tokens).await;
        reply
    }

    async fn count(&mut self, tokens: Tokens) {
        let usage = &mut self.usage;
        usage.turns += 1;
        usage.tokens_in = usage.tokens_in.saturating_add(tokens.input);
        usage.tokens_out = usage.tokens_out.saturating_add(tokens.output);
        let cost = self.price.map_or(0, |price| price.of(tokens));
        usage.cost_micro = usage.cost_micro.saturating_add(cost);
        self.teller.tell(RunnerEvent::Usage(*usage)).await;
    }
}
