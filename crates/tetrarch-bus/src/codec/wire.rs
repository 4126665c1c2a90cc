//! How values of the core stand in the fields of messages: [`Wire`] for each type of field, `message!` for
//! each message, which lists its fields once for both directions (docs/decisions/0106). Nothing here
//! knows a message.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::str::FromStr;

use tetrarch_core::id::{
    AgentId, AssignmentId, ChangeId, ChannelName, CommitId, ConversationName, CrystallizationId,
    DispatchId, Domain, DraftId, EpicId, GraphName, GraphNodeName, HostName, HumanName, NodeId,
    NoteName, PlanId, Principal, ProfileName, ProjectName, QuestionId, RequestId, ReservationId,
    RunId, ScheduleId, SessionId,
};
use tetrarch_core::time::{BusTime, Millis};

use super::error::CodecError;

/// A value of the core that a field of type `P` holds.
pub(super) trait Wire<P>: Sized {
    /// As the field holds it.
    fn put(&self) -> P;

    /// Reads the field. What is wrong is said of the field itself, which its reader names.
    fn get(held: P) -> Result<Self, CodecError>;
}

/// Reads one field, given its name in the schema.
pub(super) fn field<C: Wire<P>, P>(name: &str, held: P) -> Result<C, CodecError> {
    C::get(held).map_err(|error| error.under(&json_name(name)))
}

/// The canonical JSON name of a field of the schema.
fn json_name(name: &str) -> String {
    let mut parts = name.trim_start_matches("r#").split('_');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |name, part| {
        let (initial, rest) = part.split_at(part.len().min(1));
        name + &initial.to_ascii_uppercase() + rest
    })
}

/// Messages that are always written, and stand for the default where they are left out.
pub(super) mod kept {
    use super::{CodecError, Wire};

    #[expect(clippy::unnecessary_wraps, reason = "the field may be absent")]
    pub(in crate::codec) fn put<C: Wire<P>, P>(value: &C) -> Option<P> {
        Some(value.put())
    }

    pub(in crate::codec) fn get<C: Wire<P> + Default, P>(
        name: &str,
        held: Option<P>,
    ) -> Result<C, CodecError> {
        held.map_or_else(|| Ok(C::default()), |held| super::field(name, held))
    }
}

/// Messages that are left out where they say nothing but the default.
pub(super) mod absent {
    use super::Wire;
    pub(in crate::codec) use super::kept::get;

    pub(in crate::codec) fn put<C: Wire<P> + Default + PartialEq, P>(value: &C) -> Option<P> {
        (*value != C::default()).then(|| value.put())
    }
}

/// A message of the schema and the type of the core that it holds. Each entry is a field:
///
/// - `name`: called the same in the schema, written and read by its [`Wire`];
/// - `name: other`: called otherwise in the schema;
/// - `name: other as absent`: by the functions of that module;
/// - `(name, second): other`: two fields of the core in one;
/// - `name: Part { inner: other, .. }`: the fields of a part that has no message of its own;
/// - `other <- function`: made of the value when it is written, and not read.
///
/// `first` is called with a message before it is read.
macro_rules! message {
    ($core:ident, $pb:ident { $($fields:tt)* } $(, first: $first:expr)?) => {
        impl $crate::codec::wire::Wire<$crate::proto::v1::$pb> for $core {
            fn put(&self) -> $crate::proto::v1::$pb {
                $crate::codec::wire::message!(@put self, $pb, [] $($fields)*)
            }

            fn get(
                held: $crate::proto::v1::$pb,
            ) -> Result<Self, $crate::codec::error::CodecError> {
                $(
                    let mut held = held;
                    ($first)(&mut held)?;
                )?
                $crate::codec::wire::message!(@get held, [] [] $($fields)*)
            }
        }

        impl $crate::codec::wire::Wire<Option<$crate::proto::v1::$pb>> for $core {
            fn put(&self) -> Option<$crate::proto::v1::$pb> {
                Some(self.put())
            }

            fn get(
                held: Option<$crate::proto::v1::$pb>,
            ) -> Result<Self, $crate::codec::error::CodecError> {
                held.map_or_else(|| Err($crate::codec::error::CodecError::missing()), Self::get)
            }
        }
    };

    (@put $it:ident, $pb:ident, [$($done:tt)*]) => { $crate::proto::v1::$pb { $($done)* } };
    (@put $it:ident, $pb:ident, [$($done:tt)*] $p:ident <- $value:expr $(, $($rest:tt)*)?) => {
        $crate::codec::wire::message!(@put $it, $pb, [$($done)* $p: ($value)($it),] $($($rest)*)?)
    };
    (@put $it:ident, $pb:ident, [$($done:tt)*] ($a:ident, $b:ident): $p:ident $(, $($rest:tt)*)?) => {
        $crate::codec::wire::message!(@put $it, $pb,
            [$($done)* $p: $crate::codec::wire::Wire::put(&($it.$a, $it.$b)),] $($($rest)*)?)
    };
    (@put $it:ident, $pb:ident, [$($done:tt)*]
        $part:ident: $Part:ident {
            $($f:ident: $p:ident $(as $k:ident)?),* $(,)?
            $(; $inner:ident: $Inner:ident { $($f2:ident: $p2:ident),* $(,)? })?
        } $(, $($rest:tt)*)?) => {
        $crate::codec::wire::message!(@put $it, $pb, [
            $($done)*
            $($p: $crate::codec::wire::message!(@written $it.$part.$f $(, $k)?),)*
            $($($p2: $crate::codec::wire::message!(@written $it.$part.$inner.$f2),)*)?
        ] $($($rest)*)?)
    };
    (@put $it:ident, $pb:ident, [$($done:tt)*] $f:ident: $p:ident $(as $k:ident)? $(, $($rest:tt)*)?) => {
        $crate::codec::wire::message!(@put $it, $pb, [
            $($done)* $p: $crate::codec::wire::message!(@written $it.$f $(, $k)?),
        ] $($($rest)*)?)
    };
    (@put $it:ident, $pb:ident, $done:tt $f:ident $(as $k:ident)? $(, $($rest:tt)*)?) => {
        $crate::codec::wire::message!(@put $it, $pb, $done $f: $f $(as $k)? $(, $($rest)*)?)
    };
    (@written $value:expr) => { $crate::codec::wire::Wire::put(&$value) };
    (@written $value:expr, $k:ident) => { $k::put(&$value) };

    (@get $it:ident, [$($read:tt)*] [$($names:ident)*]) => {{
        $($read)*
        Ok(Self { $($names),* })
    }};
    (@get $it:ident, $read:tt $names:tt $p:ident <- $value:expr $(, $($rest:tt)*)?) => {
        $crate::codec::wire::message!(@get $it, $read $names $($($rest)*)?)
    };
    (@get $it:ident, [$($read:tt)*] [$($names:ident)*]
        ($a:ident, $b:ident): $p:ident $(, $($rest:tt)*)?) => {
        $crate::codec::wire::message!(@get $it,
            [$($read)* let ($a, $b) = $crate::codec::wire::field(stringify!($p), $it.$p)?;]
            [$($names)* $a $b] $($($rest)*)?)
    };
    (@get $it:ident, [$($read:tt)*] [$($names:ident)*]
        $part:ident: $Part:ident {
            $($f:ident: $p:ident $(as $k:ident)?),* $(,)?
            $(; $inner:ident: $Inner:ident { $($f2:ident: $p2:ident),* $(,)? })?
        } $(, $($rest:tt)*)?) => {
        $crate::codec::wire::message!(@get $it,
            [$($read)* let $part = $Part {
                $($f: $crate::codec::wire::message!(@read $p, $it.$p $(, $k)?)?,)*
                $($inner: $Inner {
                    $($f2: $crate::codec::wire::message!(@read $p2, $it.$p2)?,)*
                },)?
            };]
            [$($names)* $part] $($($rest)*)?)
    };
    (@get $it:ident, [$($read:tt)*] [$($names:ident)*]
        $f:ident: $p:ident $(as $k:ident)? $(, $($rest:tt)*)?) => {
        $crate::codec::wire::message!(@get $it,
            [$($read)* let $f = $crate::codec::wire::message!(@read $p, $it.$p $(, $k)?)?;]
            [$($names)* $f] $($($rest)*)?)
    };
    (@get $it:ident, $read:tt $names:tt $f:ident $(as $k:ident)? $(, $($rest:tt)*)?) => {
        $crate::codec::wire::message!(@get $it, $read $names $f: $f $(as $k)? $(, $($rest)*)?)
    };
    (@read $p:ident, $held:expr) => { $crate::codec::wire::field(stringify!($p), $held) };
    (@read $p:ident, $held:expr, $k:ident) => { $k::get(stringify!($p), $held) };
}

/// Types that are text; where they may be absent, empty text is none.
macro_rules! texts {
    ($($core:ty),* $(,)?) => {$(
        impl $crate::codec::wire::Wire<String> for $core {
            fn put(&self) -> String {
                self.to_string()
            }

            fn get(held: String) -> Result<Self, $crate::codec::error::CodecError> {
                $crate::codec::wire::parsed(&held)
            }
        }

        maybe!($core);
    )*};
}

/// Closed sets of words; where one may be absent, empty text is none.
macro_rules! words {
    ($($core:ty),* $(,)?) => {$(
        impl $crate::codec::wire::Wire<String> for $core {
            fn put(&self) -> String {
                self.as_str().to_owned()
            }

            fn get(held: String) -> Result<Self, $crate::codec::error::CodecError> {
                $crate::codec::wire::word(&held, &Self::ALL, Self::as_str)
            }
        }

        $crate::codec::wire::maybe!($core);
    )*};
}

macro_rules! maybe {
    ($core:ty) => {
        impl $crate::codec::wire::Wire<String> for Option<$core> {
            fn put(&self) -> String {
                self.as_ref().map($crate::codec::wire::Wire::put).unwrap_or_default()
            }

            fn get(held: String) -> Result<Self, $crate::codec::error::CodecError> {
                if held.is_empty() { Ok(None) } else { <$core>::get(held).map(Some) }
            }
        }
    };
}

/// A message from variables that are called as its fields are.
macro_rules! put {
    ($pb:ident { $($f:ident),* $(,)? }) => {
        $crate::proto::v1::$pb { $($f: $crate::codec::wire::Wire::put($f)),* }
    };
}

/// A value of the core from the fields of a message that are called as its own, which are named below `within`.
macro_rules! get {
    ($it:expr, $core:path { $($f:ident),* $(,)? }) => {{
        let it = $it;
        $core { $($f: $crate::codec::wire::field(stringify!($f), it.$f)?),* }
    }};
    ($it:expr, $core:path { $($f:ident),* $(,)? }, $within:literal) => {{
        let it = $it;
        $core { $($f: $crate::codec::wire::field(concat!($within, ".", stringify!($f)), it.$f)?),* }
    }};
}

pub(super) use {get, maybe, message, put, words};

/// Text that has to be there and parse.
pub(super) fn parsed<T>(held: &str) -> Result<T, CodecError>
where
    T: FromStr,
    T::Err: Display,
{
    if held.is_empty() {
        return Err(CodecError::missing());
    }
    held.parse().map_err(|error: T::Err| CodecError::field("", error.to_string()))
}

/// One of a closed set of words.
pub(super) fn word<T: Copy>(
    held: &str,
    all: &[T],
    name: fn(T) -> &'static str,
) -> Result<T, CodecError> {
    if held.is_empty() {
        return Err(CodecError::missing());
    }
    let found = all.iter().copied().find(|one| name(*one) == held);
    found.ok_or_else(|| {
        let allowed: Vec<&str> = all.iter().map(|one| name(*one)).collect();
        let allowed = allowed.join(", ");
        CodecError::field("", format!("unknown word {held:?}; allowed: {allowed}"))
    })
}

macro_rules! as_they_are {
    ($($scalar:ty),*) => {$(
        impl Wire<$scalar> for $scalar {
            fn put(&self) -> $scalar {
                self.clone()
            }

            fn get(held: $scalar) -> Result<Self, CodecError> {
                Ok(held)
            }
        }
    )*};
}

as_they_are!(bool, u32, u64, f64, String);
maybe!(String);

impl Wire<u32> for u8 {
    fn put(&self) -> u32 {
        (*self).into()
    }

    fn get(held: u32) -> Result<Self, CodecError> {
        let small = Self::try_from(held);
        small.map_err(|_| CodecError::field("", format!("{held} is more than {}", Self::MAX)))
    }
}

impl Wire<u32> for usize {
    fn put(&self) -> u32 {
        u32::try_from(*self).unwrap_or(u32::MAX)
    }

    fn get(held: u32) -> Result<Self, CodecError> {
        Self::try_from(held).map_err(|error| CodecError::field("", error.to_string()))
    }
}

impl Wire<u64> for BusTime {
    fn put(&self) -> u64 {
        self.0
    }

    fn get(held: u64) -> Result<Self, CodecError> {
        Ok(Self(held))
    }
}

impl Wire<u64> for Millis {
    fn put(&self) -> u64 {
        self.0
    }

    fn get(held: u64) -> Result<Self, CodecError> {
        Ok(Self(held))
    }
}

impl<P, C: Wire<P>> Wire<Option<P>> for Option<C> {
    fn put(&self) -> Option<P> {
        self.as_ref().map(C::put)
    }

    fn get(held: Option<P>) -> Result<Self, CodecError> {
        held.map(C::get).transpose()
    }
}

impl<P, C: Wire<P>> Wire<P> for Box<C> {
    fn put(&self) -> P {
        (**self).put()
    }

    fn get(held: P) -> Result<Self, CodecError> {
        C::get(held).map(Self::new)
    }
}

/// What is wrong in a list is said of its place.
fn each<P, C: Wire<P>, L: FromIterator<C>>(held: Vec<P>) -> Result<L, CodecError> {
    let at = |(index, held)| C::get(held).map_err(|error| error.under(&format!("[{index}]")));
    held.into_iter().enumerate().map(at).collect()
}

impl<P, C: Wire<P>> Wire<Vec<P>> for Vec<C> {
    fn put(&self) -> Vec<P> {
        self.iter().map(C::put).collect()
    }

    fn get(held: Vec<P>) -> Result<Self, CodecError> {
        each(held)
    }
}

impl<P, C: Wire<P> + Ord> Wire<Vec<P>> for BTreeSet<C> {
    fn put(&self) -> Vec<P> {
        self.iter().map(C::put).collect()
    }

    fn get(held: Vec<P>) -> Result<Self, CodecError> {
        each(held)
    }
}

impl<P, K: Ord + Clone, V: Clone> Wire<Vec<P>> for BTreeMap<K, V>
where
    (K, V): Wire<P>,
{
    fn put(&self) -> Vec<P> {
        self.iter().map(|(key, value)| (key.clone(), value.clone()).put()).collect()
    }

    fn get(held: Vec<P>) -> Result<Self, CodecError> {
        each(held)
    }
}

/// Pairs of text: sorted, the last of equal names.
impl Wire<BTreeMap<String, String>> for Vec<(String, String)> {
    fn put(&self) -> BTreeMap<String, String> {
        self.iter().cloned().collect()
    }

    fn get(held: BTreeMap<String, String>) -> Result<Self, CodecError> {
        Ok(held.into_iter().collect())
    }
}

texts!(
    AgentId,
    AssignmentId,
    ChangeId,
    CommitId,
    ChannelName,
    ConversationName,
    CrystallizationId,
    DispatchId,
    Domain,
    DraftId,
    EpicId,
    GraphName,
    GraphNodeName,
    HostName,
    HumanName,
    NodeId,
    NoteName,
    PlanId,
    Principal,
    ProfileName,
    ProjectName,
    QuestionId,
    RequestId,
    ReservationId,
    RunId,
    ScheduleId,
    SessionId,
);
