//! Closed sets that are written as words, on the bus and for people. A set is listed once, each value with its
//! word; nothing here knows a set.

/// An enum whose values are words: `ALL` lists them in order, `as_str` and `Display` give the word.
#[macro_export]
macro_rules! words {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $($(#[$doc:meta])* $value:ident = $word:literal,)+
        }
    ) => {
        $(#[$meta])*
        $vis enum $name {
            $($(#[$doc])* $value,)+
        }

        impl $name {
            /// Every value, in order.
            $vis const ALL: [Self; [$($word),+].len()] = [$(Self::$value),+];

            /// Its word.
            #[must_use]
            $vis const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$value => $word,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

/// [`words!`] that are read too, by `parse`.
macro_rules! parsed_words {
    ($(#[$meta:meta])* pub enum $name:ident $values:tt) => {
        $crate::words! { $(#[$meta])* pub enum $name $values }

        impl $name {
            /// The value of a word; none of any other text.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.as_str() == text)
            }
        }
    };
}

pub(crate) use parsed_words;
#[doc(inline)]
pub(crate) use words;
