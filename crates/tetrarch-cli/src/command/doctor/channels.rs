//! The channels by which people are told: whether each can be used. Nothing is sent.

use super::check::DoctorCheck;
use crate::Context;
use crate::command::notify::usable;

/// A check of each channel.
pub(super) async fn checks(context: &Context) -> Vec<DoctorCheck> {
    let channels = context.config.channels.clone();
    if channels.channels.is_empty() {
        return Vec::new();
    }
    // A program that prints a key must not be waited for on a thread of the runtime.
    let Ok(all) = tokio::task::spawn_blocking(move || usable::all(&channels)).await else {
        let next = "`tetrarch notify --test` sends a test to each";
        return vec![DoctorCheck::warn("channels", "checking the channels failed", next)];
    };
    let check = |(name, fault): (_, Option<usable::ChannelFault>)| {
        let name = format!("channel {name}");
        match fault {
            None => DoctorCheck::ok(&name, "can be used; `tetrarch notify --test` sends a test"),
            Some(fault) => DoctorCheck::warn(&name, fault.what, fault.next),
        }
    };
    all.into_iter().map(check).collect()
}
