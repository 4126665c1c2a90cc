//! The `tetrarch` binary.

/// Deciding, encoding and publishing make many small values that end on another thread
/// (docs/decisions/0137).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    tetrarch_cli::main()
}
