//! Logarithm and exponential from the four basic operations only, so that a seed gives the same bits on every machine (the
//! platform's `ln` and `exp` differ in the last place).

const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// Natural logarithm of a positive, normal number; within 4 units of the last place.
pub(crate) fn ln(x: f64) -> f64 {
    debug_assert!(x > 0.0 && x.is_finite());
    // x = m * 2^e with m in [sqrt(1/2), sqrt(2)); ln m = 2 atanh((m-1)/(m+1)).
    let bits = x.to_bits();
    let mut e = (bits >> 52 & 0x7ff) as i64 - 1023;
    let mut m = f64::from_bits(bits & 0x000f_ffff_ffff_ffff | 1023 << 52);
    if m > std::f64::consts::SQRT_2 {
        m *= 0.5;
        e += 1;
    }
    let s = (m - 1.0) / (m + 1.0);
    let e = e as f64;
    e * LN_2_HIGH + (2.0 * s * atanh_series(s * s) + e * LN_2_LOW)
}

/// 1 + z/3 + z^2/5 + ..., for z up to 0.03.
fn atanh_series(z: f64) -> f64 {
    let mut sum = 0.0;
    let mut k = 23.0;
    while k >= 1.0 {
        sum = sum * z + 1.0 / k;
        k -= 2.0;
    }
    sum
}

/// e to the power of x, for results that are normal numbers; clamped outside.
pub(crate) fn exp(x: f64) -> f64 {
    let x = x.clamp(-700.0, 700.0);
    let scaled = x * std::f64::consts::LOG2_E;
    let k = (if scaled < 0.0 { scaled - 0.5 } else { scaled + 0.5 }) as i64;
    let r = (x - k as f64 * LN_2_HIGH) - k as f64 * LN_2_LOW;
    let mut sum = 1.0;
    let mut n = 15.0;
    while n >= 1.0 {
        sum = 1.0 + sum * r / n;
        n -= 1.0;
    }
    sum * f64::from_bits(((1023 + k) as u64) << 52)
}

/// `ln(1 + x) / x`, smooth at 0.
pub(crate) fn ln_1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { ln(1.0 + x) / x } else { 1.0 - x * (0.5 - x * (1.0 / 3.0)) }
}

/// `(e^x - 1) / x`, smooth at 0.
pub(crate) fn exp_m1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { (exp(x) - 1.0) / x } else { 1.0 + x * 0.5 * (1.0 + x * (1.0 / 3.0)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_platform() {
        for i in 1..2000 {
            let x = f64::from(i) * 0.37;
            assert!((ln(x) - x.ln()).abs() <= 1e-14 * x.ln().abs().max(1.0), "ln {x}");
            assert!((ln(1.0 / x) + ln(x)).abs() < 1e-13);
            let y = f64::from(i - 1000) * 0.31;
            assert!((exp(y) / y.exp() - 1.0).abs() < 1e-13, "exp {y}");
        }
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(ln(1.0), 0.0);
    }

    #[test]
    fn golden_bits() {
        // Any machine must give these very bits.
        assert_eq!(ln(10.0).to_bits(), std::f64::consts::LN_10.to_bits());
        assert!((exp(1.0) - std::f64::consts::E).abs() < 1e-15);
    }
}
