//! The roster on a terminal (spec 08, Roster). It is a state machine: [`update::update`] takes what is shown and one
//! input and gives what is shown then, with what is to be done; [`draw::draw`] draws it. Neither reads a clock, the
//! bus or a terminal, which are the shell's: the command line's for the bus, [`terminal`]'s for the terminal.

pub mod diff;
pub mod draw;
pub mod events;
pub mod input;
pub mod keys;
pub mod model;
pub mod past;
pub mod terminal;
pub mod update;

#[cfg(test)]
mod tests;
