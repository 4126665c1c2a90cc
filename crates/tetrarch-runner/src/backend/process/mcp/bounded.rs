//! The way of one connection's messages, with bounds: a program that asks and reads no answers waits, and costs its
//! host no memory.

use std::io;
use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{GetExtensions, JsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tetrarch_core::limits::LINE_BYTES_MAX;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Semaphore;

/// Requests of one connection that are answered at once, and answers on their way to it; further requests are not read.
const OPEN_MAX: usize = 64;

/// Lines of JSON in both directions.
pub(super) struct BoundedLines {
    lines: AsyncRwTransport<RoleServer, OwnedReadHalf, OwnedWriteHalf>,
    requests: Arc<Semaphore>,
    answers: Arc<Semaphore>,
}

impl BoundedLines {
    /// Those of this connection. Longer lines than a program may write to its output are dropped.
    pub(super) fn of(stream: UnixStream) -> Self {
        let (read, write) = stream.into_split();
        let bound = || Arc::new(Semaphore::new(OPEN_MAX));
        Self {
            lines: AsyncRwTransport::new(read, write).with_max_line_length(LINE_BYTES_MAX),
            requests: bound(),
            answers: bound(),
        }
    }
}

impl Transport<RoleServer> for BoundedLines {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        // Those beyond the bound are of requests that were read before.
        let held = Arc::clone(&self.answers).try_acquire_owned().ok();
        let sent = self.lines.send(message);
        async move {
            let sent = sent.await;
            drop(held);
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        // One of either is free, or the next message waits where it is. Neither is ever closed.
        drop(self.answers.acquire().await.ok()?);
        let held = Arc::clone(&self.requests).acquire_owned().await.ok()?;
        let mut message = self.lines.receive().await?;
        if let JsonRpcMessage::Request(asked) = &mut message {
            // It is with the request until that is answered.
            asked.request.extensions_mut().insert(Arc::new(held));
        }
        Some(message)
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.lines.close().await
    }
}

#[cfg(test)]
mod tests {
    use futures::poll;
    use rmcp::model::{EmptyResult, RequestId, ServerResult};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::task::unconstrained;

    use super::*;

    /// A connection, and its other end with more requests than are answered at once.
    async fn asked() -> (BoundedLines, UnixStream) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let ping = |id| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n");
        let all: String = (0..2 * OPEN_MAX).map(ping).collect();
        theirs.write_all(all.as_bytes()).await.unwrap();
        (BoundedLines::of(ours), theirs)
    }

    #[tokio::test]
    async fn requests_beyond_the_bound_are_read_when_others_are_answered() {
        let (mut lines, _theirs) = asked().await;
        let mut open = Vec::new();
        for _ in 0..OPEN_MAX {
            open.push(lines.receive().await.unwrap());
        }
        assert!(poll!(Box::pin(unconstrained(lines.receive()))).is_pending());
        open.pop();
        assert!(poll!(Box::pin(unconstrained(lines.receive()))).is_ready());
    }

    #[tokio::test]
    async fn nothing_is_read_while_answers_are_not() {
        let (mut lines, mut theirs) = asked().await;
        lines.receive().await.unwrap();
        let answer = |id| {
            let result = ServerResult::EmptyResult(EmptyResult {});
            TxJsonRpcMessage::<RoleServer>::response(result, RequestId::Number(id))
        };
        // The first takes all the room that there is.
        let mut sent = Vec::new();
        for id in 0..1_000_000 {
            let mut next = Box::pin(lines.send(answer(id)));
            if poll!(&mut next).is_pending() {
                sent.push(next);
                break;
            }
        }
        while sent.len() < OPEN_MAX {
            sent.push(Box::pin(lines.send(answer(0))));
        }
        assert!(poll!(Box::pin(unconstrained(lines.receive()))).is_pending());
        let reading = tokio::spawn(async move {
            let mut bytes = vec![0; 1 << 20];
            while theirs.read(&mut bytes).await.unwrap() > 0 {}
        });
        for next in sent {
            next.await.unwrap();
        }
        lines.receive().await.unwrap();
        reading.abort();
    }
}
