//! The roster as people meet it: what keys do, what the screen shows then, and how fast it is drawn.

mod commands;
mod deciding;
mod events;
mod fleet;
mod keys;
mod news;
mod past;
#[path = "../../tetrarch-view/src/tests/samples.rs"]
#[expect(dead_code, reason = "other crates use the rest")]
mod samples;
mod screens;
mod speed;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::input::{RosterEffect, RosterInput};
use crate::model::RosterModel;
use crate::update::update;

/// A roster that is used: what is shown, and what was to be done so far.
struct Session {
    model: Option<RosterModel>,
    effects: Vec<RosterEffect>,
}

impl Session {
    fn of(model: RosterModel) -> Self {
        Self { model: Some(model), effects: Vec::new() }
    }

    fn model(&self) -> &RosterModel {
        self.model.as_ref().unwrap()
    }

    /// What comes of an input, drawn.
    fn give(&mut self, input: RosterInput) -> &mut Self {
        self.give_undrawn(input);
        self.model.as_mut().unwrap().changed = false;
        self
    }

    fn give_undrawn(&mut self, input: RosterInput) -> &mut Self {
        let (model, effects) = update(self.model.take().unwrap(), input);
        self.model = Some(model);
        self.effects.extend(effects);
        self
    }

    fn key(&mut self, code: KeyCode) -> &mut Self {
        self.give(RosterInput::Key(KeyEvent::new(code, KeyModifiers::NONE)))
    }

    /// Each character as a key.
    fn keys(&mut self, keys: &str) -> &mut Self {
        for key in keys.chars() {
            self.key(KeyCode::Char(key));
        }
        self
    }

    fn done(&mut self) -> Vec<RosterEffect> {
        std::mem::take(&mut self.effects)
    }
}
