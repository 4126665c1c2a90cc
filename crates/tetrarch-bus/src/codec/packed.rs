//! Entries of the ledger as they are stored: the larger ones as a zlib stream. An entry repeats itself, in
//! the after-images of what belongs together and in the mail it sends, and the server stores and sends
//! every byte of it.

use std::borrow::Cow;
use std::cell::RefCell;
use std::io::Read;

use flate2::bufread::ZlibDecoder;
use flate2::{Compress, Compression, FlushCompress, Status};
use tetrarch_core::limits::COMMIT_BYTES_MAX;

use super::error::{CodecError, within};

/// How a zlib stream begins. No message of ours does: as protobuf it were a number in field 15.
const BEGINS: u8 = 0x78;
/// How hard it is tried: more takes more time and saves little.
const LEVEL: u32 = 3;
/// Bytes from which on an entry is packed.
const PACKED_FROM: usize = 512;

thread_local! {
    /// Its state takes far more memory than an entry. Made anew for each it left holes between what the owner keeps:
    /// 160 instead of 53 KiB for a plan that has ended (`e2e/soak.rs`).
    static ENCODER: RefCell<Compress> = RefCell::new(Compress::new(Compression::new(LEVEL), true));
}

/// What is stored of an entry's bytes.
pub(super) fn pack(plain: Vec<u8>) -> Vec<u8> {
    if plain.len() < PACKED_FROM {
        return plain;
    }
    deflated(&plain, plain.len()).unwrap_or(plain)
}

/// The stream of some bytes; none when it takes as many bytes as `most` or more.
fn deflated(plain: &[u8], most: usize) -> Option<Vec<u8>> {
    let mut packed = Vec::with_capacity(most);
    let status = ENCODER.with_borrow_mut(|encoder| {
        encoder.reset();
        encoder.compress_vec(plain, &mut packed, FlushCompress::Finish)
    });
    // An encoder that fails in memory gives no stream, and the entry is as good as it is.
    (matches!(status, Ok(Status::StreamEnd)) && packed.len() < most).then_some(packed)
}

/// An entry's bytes from what is stored. Of a stream that is larger than an entry may be no more is unpacked.
///
/// # Errors
/// It begins as a stream and is none, or is too large.
pub(super) fn unpack(stored: &[u8]) -> Result<Cow<'_, [u8]>, CodecError> {
    within("commit", stored.len(), COMMIT_BYTES_MAX)?;
    if stored.first() != Some(&BEGINS) {
        return Ok(Cow::Borrowed(stored));
    }
    let most = u64::try_from(COMMIT_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    let (mut decoder, mut plain) = (ZlibDecoder::new(stored), Vec::new());
    let read = (&mut decoder).take(most).read_to_end(&mut plain);
    let broken = |reason: String| CodecError::Protobuf { what: "commit", reason };
    read.map_err(|error| broken(error.to_string()))?;
    within("commit", plain.len(), COMMIT_BYTES_MAX)?;
    if !decoder.into_inner().is_empty() {
        return Err(broken("bytes follow the stream".to_owned()));
    }
    Ok(Cow::Owned(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_bytes_are_smaller_and_read_back() {
        for size in [0, 1, PACKED_FROM - 1, PACKED_FROM, COMMIT_BYTES_MAX] {
            let plain = b"\x0aabc".iter().copied().cycle().take(size).collect::<Vec<u8>>();
            let stored = pack(plain.clone());
            assert_eq!(stored.len() < plain.len(), size >= PACKED_FROM, "{size}");
            assert_eq!(unpack(&stored).unwrap(), plain, "{size}");
        }
    }

    #[test]
    fn bytes_that_do_not_get_smaller_are_stored_as_they_are() {
        let mut state = 1u64;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_be_bytes()[0]
        });
        let plain: Vec<u8> = std::iter::once(0x0a).chain(noise).take(4 * PACKED_FROM).collect();
        assert_eq!(pack(plain.clone()), plain);
    }

    #[test]
    fn bytes_beyond_the_bound_are_refused_whatever_they_say() {
        let packed = |plain: &[u8]| deflated(plain, plain.len()).unwrap();
        let most = packed(&vec![0; COMMIT_BYTES_MAX]);
        assert_eq!(unpack(&most).unwrap().len(), COMMIT_BYTES_MAX);
        let beyond = packed(&vec![0; COMMIT_BYTES_MAX + 1]);
        assert!(matches!(unpack(&beyond), Err(CodecError::TooLarge { .. })));
        let plain = vec![0; COMMIT_BYTES_MAX + 1];
        assert!(matches!(unpack(&plain), Err(CodecError::TooLarge { .. })));
    }

    #[test]
    fn stream_that_is_cut_or_goes_on_is_refused() {
        let whole = deflated(b"some bytes", 100).unwrap();
        assert_eq!(*whole.first().unwrap(), BEGINS);
        let cut = &whole[..whole.len() - 1];
        let more = [&whole[..], b"x"].concat();
        for broken in [cut, &more, &whole[..1]] {
            assert!(matches!(unpack(broken), Err(CodecError::Protobuf { .. })), "{broken:?}");
        }
    }
}
