//! Reading a program's pipes to their end. What is read means nothing here.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::watch;
use tokio::time::sleep;

/// How long a pipe may stay silent and open when every process of the run is gone: then a stranger
/// holds its other end.
const STRANGER_GRACE: Duration = Duration::from_secs(2);

/// Waits until every process of the run is gone and, when pipes are open, until they have been
/// silent for a while after that.
pub(super) async fn abandoned(gone: &mut watch::Receiver<bool>, open: bool) {
    if gone.wait_for(|gone| *gone).await.is_ok() && open {
        sleep(STRANGER_GRACE).await;
    }
}

/// Reads a chunk; at the end of the pipe, or when it breaks, the pipe is closed.
pub(super) async fn take<P: AsyncRead + Unpin>(pipe: &mut Option<P>, chunk: &mut [u8]) -> usize {
    let Some(open) = pipe else {
        return 0;
    };
    let count = open.read(chunk).await.unwrap_or(0);
    if count == 0 {
        *pipe = None;
    }
    count
}
