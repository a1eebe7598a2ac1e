//! [`ZstdFrames`]: a Zstandard file, decompressed as it is read.

use std::io::{self, Read};

use ruzstd::decoding::{BlockDecodingStrategy, DEFAULT_MAX_WINDOW_SIZE, FrameDecoder};

/// The frames of a file, one after the other; their checksums are verified.
///
/// A frame may require a window of up to 128 MiB, the limit of the `zstd` program without options. Decompressed bytes
/// that were not read yet take at most twice the window; running out of memory for that is an error.
pub(crate) struct ZstdFrames<R> {
    source: R,
    decoder: FrameDecoder,
    /// True if the decoder is inside a frame.
    is_inside: bool,
}

impl<R: Read> ZstdFrames<R> {
    pub(crate) fn new(source: R) -> Self {
        Self { source, decoder: FrameDecoder::new(), is_inside: false }
    }

    pub(crate) fn get_ref(&self) -> &R {
        &self.source
    }

    /// Goes to the next frame; returns `false` at the end of the file.
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
                let head = self.head(magic)?;
                self.decoder.reset(head.chain(&mut self.source)).map_err(io::Error::other)?;
                self.is_inside = true;
                return Ok(true);
            }
            // A skippable frame: its length, and arbitrary bytes.
            let mut length = [0; 4];
            self.source.read_exact(&mut length)?;
            let length = u64::from(u32::from_le_bytes(length));
            if io::copy(&mut (&mut self.source).take(length), &mut io::sink())? < length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

impl<R: Read> ZstdFrames<R> {
    /// Reads the header of a frame, up to its window size; fails if there is not enough memory for that, because the
    /// decoder would panic.
    fn head(&mut self, magic: [u8; 4]) -> io::Result<Vec<u8>> {
        let mut head = magic.to_vec();
        let mut take = |bytes: usize| {
            let start = head.len();
            head.resize(start + bytes, 0);
            self.source.read_exact(&mut head[start..])?;
            let mut word = [0; 8];
            word[..bytes].copy_from_slice(&head[start..]);
            io::Result::Ok(u64::from_le_bytes(word))
        };
        let descriptor = take(1)?;
        let is_single_segment = descriptor & 0x20 != 0;
        let window = if is_single_segment {
            // After the dictionary ID. The window is the whole frame.
            take([0, 1, 2, 4][(descriptor & 3) as usize])?;
            take(1 << (descriptor >> 6))?
        } else {
            let window = take(1)?;
            let base = 1_u64 << (10 + (window >> 3));
            base + base / 8 * (window & 7)
        };
        if window > DEFAULT_MAX_WINDOW_SIZE {
            let reason = format!(
                "a Zstandard frame needs a window of {window} bytes, but at most {DEFAULT_MAX_WINDOW_SIZE} are \
                 allowed; decompress it with `zstd -d --long=31`, or compress it without `--long`"
            );
            return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
        }
        if Vec::<u8>::new().try_reserve_exact(2 * window as usize).is_err() {
            let reason = format!("no memory for a window of {window} bytes, twice");
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, reason));
        }
        Ok(head)
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
