//! Tokens that tell which part of Elevon gave an I/O to the stack.

/// The bit of [`Token::encode`] that marks bios of the page cache.
const OF_CACHE: u64 = 1 << 63;

/// The source of an I/O, and the I/O's number there. The stack carries the token as an opaque
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Token {
    /// A process, with the slot of its I/O, which is the number of its buffer.
    Job(u32),
    /// The page cache, with the number of its bio.
    Cache(u32),
}

impl Token {
    /// Returns the number for [`elevon_core::stack::Io::token`].
    #[inline]
    pub const fn encode(self) -> u64 {
        match self {
            Self::Job(slot) => slot as u64,
            Self::Cache(bio) => bio as u64 | OF_CACHE,
        }
    }

    /// Returns the token of a number from [`Self::encode`].
    #[inline]
    pub const fn decode(token: u64) -> Self {
        debug_assert!(token & !OF_CACHE <= u32::MAX as u64, "no token of a job or a bio");
        if token & OF_CACHE == 0 { Self::Job(token as u32) } else { Self::Cache(token as u32) }
    }

    /// Returns true if the I/O is a bio of the page cache.
    #[inline]
    pub const fn is_of_cache(token: u64) -> bool {
        matches!(Self::decode(token), Self::Cache(_))
    }
}

#[cfg(test)]
mod tests {
    use super::Token;

    #[test]
    fn a_token_means_what_it_was_made_of() {
        for number in [0, 1, 77, u32::MAX] {
            for token in [Token::Job(number), Token::Cache(number)] {
                assert_eq!(Token::decode(token.encode()), token);
                assert_eq!(Token::is_of_cache(token.encode()), token == Token::Cache(number));
            }
        }
        assert_eq!(Token::Job(3).encode(), 3, "a job's tokens are the numbers of its buffers");
    }
}
