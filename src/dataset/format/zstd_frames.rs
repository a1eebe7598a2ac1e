//! [`ZstdFrames`]: a Zstandard file, unpacked as it is read.

use std::io::{self, Read};

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// The frames of a file one after the other, with their checksums compared.
///
/// A frame may ask for a window of 128 MiB, as much as `zstd` itself gives it unless it is told to give more.
pub(super) struct ZstdFrames<R> {
    source: R,
    decoder: FrameDecoder,
    /// Whether the decoder is inside a frame.
    is_inside: bool,
}

impl<R: Read> ZstdFrames<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, decoder: FrameDecoder::new(), is_inside: false }
    }

    pub(super) fn get_ref(&self) -> &R {
        &self.source
    }

    /// Goes to the next frame; `false` at the end of the file.
    fn begin(&mut self) -> io::Result<bool> {
        loop {
            let mut magic = [0; 4];
            let mut found = 0;
            while found < magic.len() {
                match self.source.read(&mut magic[found..])? {
                    0 if found == 0 => return Ok(false),
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    read => found += read,
                }
            }
            if u32::from_le_bytes(magic) & 0xffff_fff0 != 0x184d_2a50 {
                self.decoder.reset(magic.chain(&mut self.source)).map_err(io::Error::other)?;
                self.is_inside = true;
                return Ok(true);
            }
            // A frame that is to be skipped: its length, and anything.
            let mut length = [0; 4];
            self.source.read_exact(&mut length)?;
            let length = u64::from(u32::from_le_bytes(length));
            if io::copy(&mut (&mut self.source).take(length), &mut io::sink())? < length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

impl<R: Read> Read for ZstdFrames<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.is_inside && !self.begin()? {
                return Ok(0);
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let strategy = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.source, strategy).map_err(io::Error::other)?;
            }
            if self.decoder.can_collect() > 0 {
                return self.decoder.read(into);
            }
            let stored = self.decoder.get_checksum_from_data();
            if stored.is_some() && stored != self.decoder.get_calculated_checksum() {
                return Err(io::Error::other("the checksum of a frame is wrong"));
            }
            self.is_inside = false;
        }
    }
}
