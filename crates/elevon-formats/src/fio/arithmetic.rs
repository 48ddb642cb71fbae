//! Arithmetic of option values: `+ - * / % ^`, unary signs, parentheses, numbers with units. Whole
//! numbers only.
//!
//! Recursive descent by precedence (`^` binds tightest and to the right, then `* / %`, then `+ -`).
//! Every step is checked for overflow and nesting is bounded, so no input can panic.

use crate::diagnostic::{Complaint, Problem};

const NESTING: u32 = 64;

struct Expression<'a, U> {
    rest: &'a str,
    unit: U,
    depth: u32,
}

/// Returns the value of `text`. `unit` returns the factor of a suffix, `""` included.
///
/// # Errors
/// Says what is wrong, in a few words.
pub(crate) fn evaluate(text: &str, unit: impl Fn(&str) -> Option<u64>) -> Result<i128, Complaint> {
    let mut expression = Expression { rest: text, unit, depth: 0 };
    let value = expression.sum()?;
    match expression.rest.trim_start() {
        "" => Ok(value),
        rest => {
            Err(Problem::Malformed.because(format!("`{rest}` is left over after the expression")))
        }
    }
}

impl<U: Fn(&str) -> Option<u64>> Expression<'_, U> {
    fn take(&mut self, choices: &[char]) -> Option<char> {
        self.rest = self.rest.trim_start();
        let first = self.rest.chars().next().filter(|c| choices.contains(c))?;
        self.rest = &self.rest[1..];
        Some(first)
    }

    fn sum(&mut self) -> Result<i128, Complaint> {
        let mut left = self.product()?;
        while let Some(operator) = self.take(&['+', '-']) {
            let right = self.product()?;
            let value =
                if operator == '+' { left.checked_add(right) } else { left.checked_sub(right) };
            left = value.ok_or_else(too_large)?;
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<i128, Complaint> {
        let mut left = self.power()?;
        while let Some(operator) = self.take(&['*', '/', '%']) {
            let right = self.power()?;
            if operator != '*' && right == 0 {
                return Err(Problem::Malformed.because("division by zero"));
            }
            let value = match operator {
                '*' => left.checked_mul(right),
                '/' => left.checked_div(right),
                _ => left.checked_rem(right),
            };
            left = value.ok_or_else(too_large)?;
        }
        Ok(left)
    }

    fn power(&mut self) -> Result<i128, Complaint> {
        if self.depth >= NESTING {
            return Err(Problem::TooMany
                .because(format!("more than {NESTING} levels of parentheses, signs and powers")));
        }
        self.depth += 1;
        let value = self.power_inside();
        self.depth -= 1;
        value
    }

    fn power_inside(&mut self) -> Result<i128, Complaint> {
        if self.take(&['-']).is_some() {
            return self.power()?.checked_neg().ok_or_else(too_large);
        }
        if self.take(&['+']).is_some() {
            return self.power();
        }
        let base = self.atom()?;
        if self.take(&['^']).is_none() {
            return Ok(base);
        }
        let exponent = self.power()?;
        let exponent = u32::try_from(exponent)
            .map_err(|_| Problem::OutOfRange.because("an exponent is 0 or more, and small"))?;
        base.checked_pow(exponent).ok_or_else(too_large)
    }

    fn atom(&mut self) -> Result<i128, Complaint> {
        if self.take(&['(']).is_some() {
            let value = self.sum()?;
            return self
                .take(&[')'])
                .map(|_| value)
                .ok_or_else(|| Problem::Malformed.because("a `)` is missing"));
        }
        self.rest = self.rest.trim_start();
        let (digits, radix) =
            match self.rest.strip_prefix("0x").or_else(|| self.rest.strip_prefix("0X")) {
                Some(digits) => (digits, 16),
                None => (self.rest, 10),
            };
        let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
        let (number, tail) = digits.split_at(end);
        if number.is_empty() {
            return Err(
                Problem::Malformed.because(format!("a number is expected at `{}`", self.rest))
            );
        }
        let number = i128::from_str_radix(number, radix).map_err(|_| too_large())?;
        let end = tail.find(|c: char| !c.is_alphabetic()).unwrap_or(tail.len());
        let (suffix, tail) = tail.split_at(end);
        let factor = match suffix {
            "" => (self.unit)("").unwrap_or(1),
            _ => (self.unit)(suffix)
                .ok_or_else(|| Problem::UnknownUnit.because(format!("unknown unit `{suffix}`")))?,
        };
        self.rest = tail;
        number.checked_mul(i128::from(factor)).ok_or_else(too_large)
    }
}

fn too_large() -> Complaint {
    Problem::OutOfRange.because("the number is too large")
}

#[cfg(test)]
mod tests {
    use super::evaluate;

    #[test]
    fn precedence_units_and_overflow() {
        let unit = |suffix: &str| match suffix {
            "" => Some(1),
            "k" => Some(1024),
            _ => None,
        };
        for (text, value) in [
            ("1+2*3", 7),
            ("(1+2)*3", 9),
            ("2^3^2", 512),
            ("7%4", 3),
            ("-3+5", 2),
            ("4k*2", 8192),
            ("0x10", 16),
            (" 8 / 3 ", 2),
            ("2*-3", -6),
            ("--4", 4),
        ] {
            assert_eq!(evaluate(text, unit), Ok(value), "{text}");
        }
        for text in ["", "1+", "(1", "1/0", "2^-1", "10^100", "1x", "1 2", "0x", "5%0", "9^9^9"] {
            assert!(evaluate(text, unit).is_err(), "{text}");
        }
        assert!(evaluate(&"(".repeat(100_000), unit).is_err());
        assert!(evaluate(&"-".repeat(100_000), unit).is_err());
    }
}
