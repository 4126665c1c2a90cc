//! The terminal: taken over, given back however the program ends, and read.

use std::io::{self, Stdout, Write};

use crossterm::event::{
    DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture, Event,
    EventStream,
};
use crossterm::{execute, terminal};
use futures::{Stream, StreamExt};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

use crate::draw::draw;
use crate::input::RosterInput;
use crate::model::RosterModel;

/// The terminal while the roster is on it.
#[derive(Debug)]
pub struct RosterScreen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl RosterScreen {
    /// Takes the terminal over. It is given back when this is dropped, and when the program panics.
    ///
    /// # Errors
    /// It is no terminal, or cannot be set.
    pub fn open() -> io::Result<Self> {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // What went wrong is to be read on the screen that was there before.
            let _unset = give_back(&mut io::stdout());
            hook(info);
        }));
        terminal::enable_raw_mode()?;
        let taken = take(&mut io::stdout());
        let opened = taken.and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        match opened {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                let _unset = give_back(&mut io::stdout());
                Err(error)
            }
        }
    }

    /// Its columns and lines.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn size(&self) -> io::Result<(u16, u16)> {
        terminal::size()
    }

    /// Draws what is shown: only what differs from the last time is written.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn draw(&mut self, model: &RosterModel) -> io::Result<()> {
        self.terminal.draw(|frame| draw(model, frame)).map(drop)
    }
}

impl Drop for RosterScreen {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing back.
        let _unset = give_back(&mut io::stdout());
    }
}

fn take(out: &mut impl Write) -> io::Result<()> {
    execute!(out, terminal::EnterAlternateScreen, EnableMouseCapture, EnableBracketedPaste)
}

fn give_back(out: &mut impl Write) -> io::Result<()> {
    let left = execute!(
        out,
        DisableBracketedPaste,
        DisableMouseCapture,
        terminal::LeaveAlternateScreen,
        crossterm::cursor::Show
    );
    terminal::disable_raw_mode().and(left)
}

/// What comes from the terminal; an error, or the end, when it is gone.
pub fn inputs() -> impl Stream<Item = io::Result<RosterInput>> {
    EventStream::new().filter_map(async |event| match event {
        Ok(Event::Key(key)) => Some(Ok(RosterInput::Key(key))),
        Ok(Event::Mouse(mouse)) => Some(Ok(RosterInput::Mouse(mouse))),
        Ok(Event::Paste(text)) => Some(Ok(RosterInput::Paste(text))),
        Ok(Event::Resize(columns, lines)) => Some(Ok(RosterInput::Resized(columns, lines))),
        Ok(Event::FocusGained | Event::FocusLost) => None,
        Err(error) => Some(Err(error)),
    })
}
