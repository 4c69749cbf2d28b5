//! How fast something grows.

/// The part of the time, at its beginning, that says nothing of growth: caches fill and pools open
/// connections.
const WARM_UP: f64 = 0.2;

/// The slope of the line with the least squares, per hour, of points in seconds, those of the warm-up left
/// out. None when fewer than two are left or all are of one moment.
pub(super) fn per_hour(points: &[(f64, f64)]) -> Option<f64> {
    let (first, last) = (points.first()?.0, points.last()?.0);
    let warm = first + (last - first) * WARM_UP;
    let points: Vec<_> = points.iter().filter(|(time, _)| *time >= warm).collect();
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(|point| of(point)).sum::<f64>() / count;
    let (mean_time, mean_value) = (mean(|point| point.0), mean(|point| point.1));
    let (mut together, mut alone) = (0.0, 0.0);
    for (time, value) in &points {
        together += (time - mean_time) * (value - mean_value);
        alone += (time - mean_time).powi(2);
    }
    (points.len() > 1 && alone > 0.0).then(|| together / alone * 3600.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(by: f64) -> Vec<(f64, f64)> {
        (0..100).map(|n| (f64::from(n) * 5.0, 40.0 + f64::from(n) * 5.0 * by)).collect()
    }

    #[test]
    fn a_line_has_its_slope_and_noise_around_it_changes_little() {
        let near =
            |slope: Option<f64>, expected: f64| slope.is_some_and(|slope| (slope - expected).abs() < 0.5);
        assert!(near(per_hour(&line(0.01)), 36.0));
        assert!(near(per_hour(&line(0.0)), 0.0));
        assert!(near(per_hour(&line(-0.01)), -36.0));
        let mut noisy = line(0.01);
        noisy.iter_mut().enumerate().for_each(|(n, point)| point.1 += if n % 2 == 0 { 0.01 } else { -0.01 });
        assert!(near(per_hour(&noisy), 36.0));
    }

    #[test]
    fn the_warm_up_is_no_growth() {
        let mut points = line(0.0);
        points.iter_mut().take(15).for_each(|point| point.1 = 0.0);
        assert!(per_hour(&points).is_some_and(|slope| slope.abs() < 1e-6));
    }

    #[test]
    fn one_moment_has_no_slope() {
        for points in [&[][..], &[(1.0, 2.0)], &[(1.0, 2.0), (1.0, 3.0)]] {
            assert_eq!(per_hour(points), None);
        }
    }
}
