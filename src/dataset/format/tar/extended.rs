//! [`ExtendedHeaders`]: the extended headers before a member.

use super::header::{BLOCK, TarHeader, TarKind};
use super::pax::PaxRecords;

/// The longest name or set of pax records that is read.
const LONGEST: u64 = 1 << 20;

/// Why a sparse file is not read.
pub(super) const SPARSE: &str = "a sparse file, which is stored without its holes and is not supported; create the \
                                 archive without --sparse";

/// Why no member follows an extended header.
pub(super) const TRUNCATED: &str = "the archive is truncated: it ends after an extended header";

/// What extended headers specify for the next member.
#[derive(Debug, Default)]
pub(super) struct ExtendedHeaders {
    long_name: Option<Vec<u8>>,
    pax: PaxRecords,
}

/// The data stored after a header.
pub(super) struct Stored {
    /// The name of the member; `None` if this is the text of an extended header.
    pub(super) name: Option<Vec<u8>>,
    pub(super) bytes: u64,
    pub(super) is_sparse: bool,
}

impl ExtendedHeaders {
    /// Returns what is stored after `header`. Extended headers seen before apply to the next member only.
    pub(super) fn stored(&mut self, header: TarHeader) -> Stored {
        let TarHeader { kind, name, bytes } = header;
        if matches!(kind, TarKind::LongName | TarKind::LongLink | TarKind::Pax | TarKind::GlobalPax) {
            return Stored { name: None, bytes, is_sparse: false };
        }
        let Self { long_name, pax } = std::mem::take(self);
        Stored {
            name: pax.path.or(long_name).or(Some(name)),
            bytes: if kind == TarKind::Bare { 0 } else { pax.bytes.unwrap_or(bytes) },
            is_sparse: pax.is_sparse || matches!(kind, TarKind::Sparse { .. }),
        }
    }

    /// Fails if an extended header of this size is implausible.
    pub(super) fn check_size(bytes: u64) -> Result<(), String> {
        let refused = || format!("an extended header has {bytes} bytes, but a few hundred are usual");
        if bytes > LONGEST { Err(refused()) } else { Ok(()) }
    }

    /// Processes the extended header at `at`, with its `text`.
    ///
    /// # Errors
    /// The offset in the archive of what is wrong, and the reason.
    pub(super) fn see(&mut self, kind: TarKind, at: u64, text: &[u8]) -> Result<(), (u64, String)> {
        match kind {
            TarKind::LongName => self.long_name = text.split(|&byte| byte == 0).next().map(<[u8]>::to_vec),
            TarKind::Pax | TarKind::GlobalPax => {
                let refuse = |(place, reason)| (at + (BLOCK + place) as u64, reason);
                let records = PaxRecords::parse(text).map_err(refuse)?;
                if kind == TarKind::Pax {
                    self.pax = records;
                } else if records != PaxRecords::default() {
                    let reason = "a global header gives all members one path or size; create the archive again";
                    return Err((at, reason.into()));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
