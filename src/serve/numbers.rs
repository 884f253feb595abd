//! `GET /metrics`, for Prometheus.

use axum::Router;
use axum::http::header;
use axum::response::IntoResponse as _;
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;

/// The page, over the process's one recorder.
pub fn router(handle: PrometheusHandle) -> Router {
    let show = async move || {
        // Histograms are drained here, so that they do not grow between two visits of the scraper.
        handle.run_upkeep();
        ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], handle.render()).into_response()
    };
    Router::new().route("/metrics", get(show))
}
