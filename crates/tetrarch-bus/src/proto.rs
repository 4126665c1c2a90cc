//! What `build.rs` makes of `proto/tetrarch/v1`: prost types with canonical JSON, and the table
//! of messages and fields. Nothing outside `codec` and `schema` uses it.

/// The generated types.
#[expect(
    unreachable_pub,
    clippy::allow_attributes_without_reason,
    clippy::large_enum_variant,
    clippy::too_many_lines,
    reason = "generated code follows the proto files, not the house rules"
)]
pub(crate) mod v1 {
    include!(concat!(env!("OUT_DIR"), "/tetrarch.v1.rs"));
    include!(concat!(env!("OUT_DIR"), "/tetrarch.v1.serde.rs"));
}

pub(crate) mod fields;
