//! Decompression by zstd and xz. Both are C libraries that take long to build, so they are behind
//! the feature `archives`. Without it such data is refused.

use std::io::{self, Read};

/// Decompresses frames of zstd.
///
/// # Errors
/// Returns an error of the library, or that the build has no zstd.
#[cfg(feature = "archives")]
pub(crate) fn of_zstd<'a>(source: impl Read + Send + 'a) -> io::Result<Box<dyn Read + Send + 'a>> {
    Ok(Box::new(zstd::Decoder::new(source)?))
}

/// Decompresses streams of xz.
///
/// # Errors
/// Returns an error of the library, or that the build has no xz.
#[cfg(feature = "archives")]
pub(crate) fn of_xz<'a>(source: impl Read + Send + 'a) -> io::Result<Box<dyn Read + Send + 'a>> {
    use liblzma::read::XzDecoder;
    use liblzma::stream::{CONCATENATED, Stream};

    /// Memory that may be taken to decompress xz: `xz -9` takes a quarter of it.
    const MEMORY: u64 = 1 << 28;
    Ok(Box::new(XzDecoder::new_stream(source, Stream::new_stream_decoder(MEMORY, CONCATENATED)?)))
}

#[cfg(not(feature = "archives"))]
pub(crate) fn of_zstd<'a>(_: impl Read + Send + 'a) -> io::Result<Box<dyn Read + Send + 'a>> {
    Err(absent("zstd"))
}

#[cfg(not(feature = "archives"))]
pub(crate) fn of_xz<'a>(_: impl Read + Send + 'a) -> io::Result<Box<dyn Read + Send + 'a>> {
    Err(absent("xz"))
}

/// Returns the error of data that this build cannot read or write.
#[cfg(not(feature = "archives"))]
pub(crate) fn absent(what: &str) -> io::Error {
    let text = format!("this build has no {what}: build it with `--features full`, or pipe it in");
    io::Error::new(io::ErrorKind::Unsupported, text)
}
