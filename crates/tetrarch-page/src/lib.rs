//! The page in a browser (spec 08, Page), as pure functions: [`address`] says what a link shows, [`render`] shows it,
//! [`form`] says what a form asks for, [`guard`] and [`session`] say who may look and ask. Clock, randomness, bus and
//! sockets are the shell's, which is the command line's.

pub mod address;
mod agent;
pub mod assets;
mod conversations;
mod cost;
mod deciding;
mod events;
mod fleet;
pub mod form;
pub mod guard;
mod health;
mod inbox;
mod past;
mod plan;
pub mod render;
mod search;
pub mod session;
mod sheet;

#[cfg(test)]
mod tests;
