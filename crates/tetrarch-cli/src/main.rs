//! The `tetrarch` binary.

/// Records are many small allocations that live for milliseconds (docs/decisions/0109).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    tetrarch_cli::main()
}
