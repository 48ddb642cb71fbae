//! An output that compresses, as a file's extension says.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

/// zstd's own default level.
#[cfg(feature = "archives")]
const ZSTD_LEVEL: i32 = 3;

/// A buffered output: `.gz` is packed with gzip, `.zst` with zstd, anything else is plain.
pub struct Packed<W: Write>(Kind<W>);

enum Kind<W: Write> {
    Plain(BufWriter<W>),
    Gzip(GzEncoder<BufWriter<W>>),
    #[cfg(feature = "archives")]
    Zstd(zstd::Encoder<'static, BufWriter<W>>),
}

impl<W: Write> Packed<W> {
    /// The output of a file that is named so.
    ///
    /// # Errors
    /// Of the output.
    pub fn new(path: &Path, out: W) -> io::Result<Self> {
        let out = BufWriter::new(out);
        Ok(Self(match path.extension().and_then(|extension| extension.to_str()) {
            Some("gz") => Kind::Gzip(GzEncoder::new(out, Compression::fast())),
            #[cfg(feature = "archives")]
            Some("zst") => Kind::Zstd(zstd::Encoder::new(out, ZSTD_LEVEL)?),
            #[cfg(not(feature = "archives"))]
            Some("zst") => return Err(crate::archives::absent("zstd")),
            _ => Kind::Plain(out),
        }))
    }

    /// Ends what is packed, and hands the output back.
    ///
    /// # Errors
    /// Of the output.
    pub fn finish(self) -> io::Result<W> {
        let out = match self.0 {
            Kind::Plain(out) => out,
            Kind::Gzip(out) => out.finish()?,
            #[cfg(feature = "archives")]
            Kind::Zstd(out) => out.finish()?,
        };
        out.into_inner().map_err(io::IntoInnerError::into_error)
    }
}

impl<W: Write> Write for Packed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Kind::Plain(out) => out.write(bytes),
            Kind::Gzip(out) => out.write(bytes),
            #[cfg(feature = "archives")]
            Kind::Zstd(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Kind::Plain(out) => out.flush(),
            Kind::Gzip(out) => out.flush(),
            #[cfg(feature = "archives")]
            Kind::Zstd(out) => out.flush(),
        }
    }
}
