//! The tokens of one subject and what is said about a wrong one. It knows no subject's form.

use std::fmt::Display;
use std::str::FromStr;

/// Why a text is no subject.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubjectError {
    /// A token is not what belongs there.
    #[error("subject {subject:?}: token {position} is {token:?}: {reason}")]
    Token {
        /// The whole subject.
        subject: String,
        /// Which token, counted from 1.
        position: usize,
        /// The token.
        token: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Too few or too many tokens.
    #[error("subject {subject:?} has {found} tokens; expected {form}")]
    Count {
        /// The whole subject.
        subject: String,
        /// Tokens it has.
        found: usize,
        /// What it should look like.
        form: &'static str,
    },
}

/// The tokens of a subject, or of a key that is part of one.
pub(super) struct SubjectTokens<'a> {
    subject: &'a str,
    words: Vec<&'a str>,
    /// Tokens of the subject before the first of these.
    skipped: usize,
}

impl<'a> SubjectTokens<'a> {
    pub(super) fn of(text: &'a str, skipped: usize) -> Self {
        Self { subject: text, words: text.split('.').collect(), skipped }
    }

    /// The tokens of a part of a subject that begins after `skipped` tokens.
    pub(super) fn part(subject: &'a str, part: &'a str, skipped: usize) -> Self {
        Self { subject, words: part.split('.').collect(), skipped }
    }

    pub(super) fn len(&self) -> usize {
        self.words.len()
    }

    /// A token, empty when there is none.
    pub(super) fn word(&self, index: usize) -> &'a str {
        self.words.get(index).copied().unwrap_or_default()
    }

    pub(super) fn refused(&self, index: usize, reason: &dyn Display) -> SubjectError {
        SubjectError::Token {
            subject: self.subject.to_owned(),
            position: self.skipped + index + 1,
            token: self.word(index).to_owned(),
            reason: reason.to_string(),
        }
    }

    pub(super) fn wrong(&self, index: usize, expected: &str) -> SubjectError {
        self.refused(index, &format!("expected {expected}"))
    }

    pub(super) fn literal(&self, index: usize, expected: &str) -> Result<(), SubjectError> {
        if self.word(index) == expected { Ok(()) } else { Err(self.wrong(index, expected)) }
    }

    pub(super) fn exactly(&self, form: &'static str, count: usize) -> Result<(), SubjectError> {
        self.between(form, count, count)
    }

    pub(super) fn between(
        &self,
        form: &'static str,
        least: usize,
        most: usize,
    ) -> Result<(), SubjectError> {
        let found = self.len();
        if (least..=most).contains(&found) {
            return Ok(());
        }
        Err(SubjectError::Count {
            subject: self.subject.to_owned(),
            found: found + self.skipped,
            form,
        })
    }

    /// Reads a token, which must be the one way to write its value.
    pub(super) fn parse<T>(&self, index: usize, expected: &str) -> Result<T, SubjectError>
    where
        T: FromStr + Display,
        T::Err: Display,
    {
        self.parse_as(index, self.word(index), expected)
    }

    /// Reads a token that is written otherwise in keys, after it was turned back.
    pub(super) fn parse_as<T>(
        &self,
        index: usize,
        text: &str,
        expected: &str,
    ) -> Result<T, SubjectError>
    where
        T: FromStr + Display,
        T::Err: Display,
    {
        let value: T = text
            .parse()
            .map_err(|error| self.refused(index, &format!("expected {expected}: {error}")))?;
        let canonical = value.to_string();
        if canonical == text {
            return Ok(value);
        }
        Err(self.refused(index, &format!("write it as {canonical}")))
    }

    /// Reads the second token of a subject of two.
    pub(super) fn only<T>(&self, expected: &'static str) -> Result<T, SubjectError>
    where
        T: FromStr + Display,
        T::Err: Display,
    {
        self.exactly(expected, 2)?;
        self.parse(1, expected)
    }

    /// Reads the second and third token of a subject of three.
    pub(super) fn pair<A, B>(
        &self,
        form: &'static str,
        (first, second): (&'static str, &'static str),
    ) -> Result<(A, B), SubjectError>
    where
        A: FromStr + Display,
        A::Err: Display,
        B: FromStr + Display,
        B::Err: Display,
    {
        self.exactly(form, 3)?;
        Ok((self.parse(1, first)?, self.parse(2, second)?))
    }
}
