//! Logarithm and exponential with the same bits on every machine: those of `libm`, computed in
//! Rust. The platform's functions differ in the last place, so a random seed would not give the
//! same I/Os everywhere.

pub(crate) use libm::{exp, log as ln};

/// Returns `ln(1 + x) / x`, smooth at 0.
pub(crate) fn ln_1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { ln(1.0 + x) / x } else { 1.0 - x * (0.5 - x * (1.0 / 3.0)) }
}

/// Returns `(e^x - 1) / x`, smooth at 0.
pub(crate) fn exp_m1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { (exp(x) - 1.0) / x } else { 1.0 + x * 0.5 * (1.0 + x * (1.0 / 3.0)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bits() {
        // Every machine must give exactly these bits.
        assert_eq!(ln(10.0).to_bits(), std::f64::consts::LN_10.to_bits());
        assert_eq!(exp(1.0).to_bits(), 0x4005_bf0a_8b14_576a);
        assert_eq!((exp(0.0), ln(1.0)), (1.0, 0.0));
        assert_eq!(ln_1p_over(0.0), 1.0);
        assert_eq!(exp_m1_over(0.0), 1.0);
    }
}
