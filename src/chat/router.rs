//! Which model answers which role, with fallbacks, a circuit breaker, and bounded retries.
//!
//! It is also the door through which text leaves: secrets and personal data are masked here, for every model that does not
//! answer within this process.
//!
//! A review of a file waits for its answer, so short waits happen here, in place; a longer one is returned as an error
//! and becomes a row of the queue. A fallback is asked only when the models before it cannot answer.

pub mod breaker;

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::price::PriceTable;
use super::{ChatError, ChatMessage, ChatModel, ChatRequest, ChatResponse, ModelRole, TokenUsage, estimate_tokens};
use crate::clock::{SharedClock, Stopwatch, SystemClock};
use crate::redact::redact;
use crate::retry::Retry;
use breaker::Breaker;

/// How much a router waits and at what it gives up.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Most times one model is asked for one answer.
    pub attempts: u32,
    /// The wait after the first failure; each further one is four times as long.
    pub first_wait: Duration,
    /// The longest single wait in place; a longer one that a provider asks for is returned.
    pub longest_wait: Duration,
    /// Time after which no further attempt begins.
    pub deadline: Duration,
    /// Calls to one provider at the same time.
    pub concurrent_calls: usize,
    /// When a model is left alone.
    pub breaker: breaker::Limits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            attempts: 3,
            first_wait: Duration::from_secs(1),
            longest_wait: Duration::from_secs(30),
            deadline: Duration::from_secs(300),
            concurrent_calls: 8,
            breaker: breaker::Limits { failures: 5, pause: Duration::from_secs(60) },
        }
    }
}

/// Models by role. Cheap to ask; shared by all runs.
pub struct Router {
    routes: Vec<Route>,
    default: usize,
    roles: HashMap<ModelRole, usize>,
    fallbacks: Vec<usize>,
    providers: HashMap<String, Semaphore>,
    prices: PriceTable,
    settings: Settings,
    clock: SharedClock,
}

/// A router in the making.
pub struct Builder {
    default: Arc<dyn ChatModel>,
    roles: Vec<(ModelRole, Arc<dyn ChatModel>)>,
    fallbacks: Vec<Arc<dyn ChatModel>>,
    prices: PriceTable,
    settings: Settings,
    clock: SharedClock,
}

struct Route {
    model: Arc<dyn ChatModel>,
    breaker: Mutex<Breaker>,
}

impl Builder {
    /// The model of one role; the default answers the others.
    #[must_use]
    pub fn role(mut self, role: ModelRole, model: Arc<dyn ChatModel>) -> Self {
        self.roles.push((role, model));
        self
    }

    /// A model to ask, after those before it, when the model of a role cannot answer.
    #[must_use]
    pub fn fallback(mut self, model: Arc<dyn ChatModel>) -> Self {
        self.fallbacks.push(model);
        self
    }

    /// What tokens cost.
    #[must_use]
    pub fn prices(mut self, prices: PriceTable) -> Self {
        self.prices = prices;
        self
    }

    /// Waits and limits.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// The clock that circuit breakers go by; the machine's own unless set.
    #[must_use]
    pub fn clock(mut self, clock: SharedClock) -> Self {
        self.clock = clock;
        self
    }

    /// The router.
    pub fn build(self) -> Router {
        let mut routes: Vec<Route> = Vec::new();
        // The same model in two places has one breaker.
        let mut place = |model: Arc<dyn ChatModel>| match routes.iter().position(|r| r.model.name() == model.name()) {
            Some(place) => place,
            None => {
                routes.push(Route { model, breaker: Mutex::default() });
                routes.len() - 1
            }
        };
        let default = place(self.default);
        let roles = self.roles.into_iter().map(|(role, model)| (role, place(model))).collect();
        let fallbacks = self.fallbacks.into_iter().map(&mut place).collect();
        let permits = self.settings.concurrent_calls.clamp(1, Semaphore::MAX_PERMITS);
        let providers = routes.iter().map(|r| (provider(r.model.name()).to_owned(), Semaphore::new(permits))).collect();
        Router {
            routes,
            default,
            roles,
            fallbacks,
            providers,
            prices: self.prices,
            settings: self.settings,
            clock: self.clock,
        }
    }
}

impl Router {
    /// Every role is answered by one model, with the default settings.
    pub fn single(model: Arc<dyn ChatModel>) -> Self {
        Self::builder(model).build()
    }

    /// A router whose default is `model`.
    pub fn builder(model: Arc<dyn ChatModel>) -> Builder {
        Builder {
            default: model,
            roles: Vec::new(),
            fallbacks: Vec::new(),
            prices: PriceTable::default(),
            settings: Settings::default(),
            clock: Arc::new(SystemClock),
        }
    }

    /// The name of the model that answers a role, for people.
    pub fn name(&self, role: ModelRole) -> &str {
        self.routes.get(self.place(role)).map_or("", |route| route.model.name())
    }

    /// Whether the model of this name may come to answer a role, be it for another one.
    pub fn may_ask(&self, role: ModelRole, name: &str) -> bool {
        self.order(role).iter().filter_map(|place| self.routes.get(*place)).any(|route| route.model.name() == name)
    }

    /// Whether a role is answered within this process, also when its model fails.
    pub fn is_local(&self, role: ModelRole) -> bool {
        self.order(role).iter().filter_map(|place| self.routes.get(*place)).all(|route| route.model.is_local())
    }

    /// What so many prompt tokens cost the model of a role, in millionths of a US dollar.
    pub fn price(&self, role: ModelRole, input: u64) -> u64 {
        let usage = TokenUsage { input, ..TokenUsage::default() };
        self.routes.get(self.place(role)).map_or(0, |route| self.prices.cost(route.model.name(), &usage))
    }

    /// Asks the model of the request's role, and those that stand in for it when it cannot answer. The usage in the
    /// answer has its cost.
    ///
    /// # Errors
    /// See [`ChatError`]. Of several models' errors the one that leaves most hope, and of equal ones the first.
    pub async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ChatError> {
        let asked = Stopwatch::start();
        let mut failed: Option<ChatError> = None;
        for place in self.order(request.conversation.role) {
            let Some(route) = self.routes.get(place) else { continue };
            match self.ask(route, request, asked).await {
                Ok(response) => return Ok(response),
                Err(error @ ChatError::OverBudget(_)) => return Err(error),
                Err(error) => {
                    let hopeless_before = failed.as_ref().is_none_or(|f| f.retry() == Retry::Never);
                    if failed.is_none() || (hopeless_before && error.retry() != Retry::Never) {
                        failed = Some(error);
                    }
                }
            }
        }
        Err(failed.unwrap_or_else(|| ChatError::Unavailable("no model is configured".to_owned())))
    }

    fn place(&self, role: ModelRole) -> usize {
        self.roles.get(&role).copied().unwrap_or(self.default)
    }

    fn order(&self, role: ModelRole) -> Vec<usize> {
        let mut order = vec![self.place(role)];
        for fallback in &self.fallbacks {
            if !order.contains(fallback) {
                order.push(*fallback);
            }
        }
        order
    }

    /// Asks one model, again after short waits.
    async fn ask(&self, route: &Route, request: &ChatRequest, asked: Stopwatch) -> Result<ChatResponse, ChatError> {
        let mut attempt = 1;
        loop {
            let error = match self.once(route, request).await {
                Ok(Ok(response)) => return Ok(response),
                Ok(Err(error)) => error,
                Err(open) => return Err(closed(route.model.name(), open, &self.settings.breaker)),
            };
            let wait = match error.retry() {
                Retry::Never => return Err(error),
                Retry::After(wait) => wait,
                Retry::Backoff => self.backoff(attempt, request),
            };
            let is_last = attempt >= self.settings.attempts || wait > self.settings.longest_wait;
            if is_last || asked.elapsed().saturating_add(wait) >= self.settings.deadline {
                return Err(error);
            }
            tracing::info!(
                gen_ai.request.model = route.model.name(),
                error.type = kind(&error),
                wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                "a model call failed; it is tried again"
            );
            tokio::time::sleep(wait).await;
            attempt += 1;
        }
    }

    /// Asks one model once; `Err` when it is left alone.
    async fn once(
        &self,
        route: &Route,
        request: &ChatRequest,
    ) -> Result<Result<ChatResponse, ChatError>, breaker::Open> {
        let name = route.model.name();
        let _permit = match self.providers.get(provider(name)) {
            Some(semaphore) => semaphore.acquire().await.ok(),
            None => None,
        };
        let limits = &self.settings.breaker;
        // Asked after the wait for a place, so that a queue does not go on against a model that began to fail.
        lock(&route.breaker).enter(self.clock.now(), limits)?;
        let request = if route.model.is_local() { Cow::Borrowed(request) } else { masked(request) };
        let took = Stopwatch::start();
        let mut answer = route.model.chat(&request).await;
        let now = self.clock.now();
        match &mut answer {
            Ok(response) => {
                lock(&route.breaker).succeeded();
                if !route.model.is_local() {
                    count_uncounted(&request, response);
                }
                response.usage.cost_micro_usd = self.prices.cost(name, &response.usage);
            }
            Err(ChatError::RateLimited { retry_after: Some(wait) }) if *wait > self.settings.longest_wait => {
                lock(&route.breaker).limited(now, *wait);
            }
            // These say nothing against the model: it answered, and another request may do.
            Err(ChatError::Rejected(_) | ChatError::OverBudget(_) | ChatError::RateLimited { .. }) => {}
            Err(_) => lock(&route.breaker).failed(now, limits),
        }
        let open = lock(&route.breaker).is_open(now);
        metrics::gauge!("secondlook_model_left_alone", "model" => name.to_owned()).set(f64::from(u8::from(open)));
        watch(name, request.conversation.role, took.elapsed(), &answer);
        Ok(answer)
    }

    /// The wait after a failure, spread by what the request is about, so that the files of a review do not all come
    /// back at the same moment.
    fn backoff(&self, attempt: u32, request: &ChatRequest) -> Duration {
        let base = self.settings.first_wait.saturating_mul(4_u32.saturating_pow(attempt.saturating_sub(1)));
        let mut hasher = DefaultHasher::new();
        (&request.conversation, attempt).hash(&mut hasher);
        let spread = u32::try_from(hasher.finish() % 50).unwrap_or(0);
        base.saturating_add(base.saturating_mul(spread) / 100).min(self.settings.longest_wait)
    }
}

/// The request as it may leave: without secrets and personal data. What is kept of the conversation is not changed.
fn masked(request: &ChatRequest) -> Cow<'_, ChatRequest> {
    let mut masked = Cow::Borrowed(request);
    for (index, message) in request.messages.iter().enumerate() {
        if let Cow::Owned(safe) = redact(message.text())
            && let Some(
                ChatMessage::System { text }
                | ChatMessage::User { text }
                | ChatMessage::Assistant { text, .. }
                | ChatMessage::Tool { text, .. },
            ) = masked.to_mut().messages.get_mut(index)
        {
            *text = safe;
        }
        let ChatMessage::Assistant { tool_calls, .. } = message else { continue };
        for (call, wanted) in tool_calls.iter().enumerate() {
            if let Cow::Owned(safe) = redact(&wanted.arguments)
                && let Some(ChatMessage::Assistant { tool_calls, .. }) = masked.to_mut().messages.get_mut(index)
                && let Some(call) = tool_calls.get_mut(call)
            {
                call.arguments = safe;
            }
        }
    }
    masked
}

/// Estimates the tokens that a server did not count, so that no budget is endless.
fn count_uncounted(request: &ChatRequest, response: &mut ChatResponse) {
    let usage = &mut response.usage;
    usage.calls = usage.calls.max(1);
    if usage.input == 0 && usage.output == 0 {
        let calls = response.tool_calls.iter().map(|call| estimate_tokens(&call.arguments)).sum::<u64>();
        usage.input = request.messages.iter().map(|message| estimate_tokens(message.text())).sum();
        usage.output = estimate_tokens(&response.text) + calls;
    }
}

/// Counts a call and its tokens, under the names of OpenTelemetry's conventions for generative AI.
fn watch(name: &str, role: ModelRole, took: Duration, answer: &Result<ChatResponse, ChatError>) {
    let (provider, model) = (provider(name).to_owned(), name.rsplit("::").next().unwrap_or(name).to_owned());
    let error = answer.as_ref().err().map_or("", kind);
    let labels = [
        ("gen_ai_provider_name", provider),
        ("gen_ai_request_model", model),
        ("role", format!("{role:?}").to_lowercase()),
    ];
    let mut with_error = labels.to_vec();
    with_error.push(("error_type", error.to_owned()));
    metrics::counter!("gen_ai_client_calls_total", &with_error).increment(1);
    metrics::histogram!("gen_ai_client_operation_duration_seconds", &with_error).record(took.as_secs_f64());
    let Ok(response) = answer else { return };
    let usage = &response.usage;
    for (kind, tokens) in [("input", usage.input), ("cached_input", usage.cached_input), ("output", usage.output)] {
        let mut labels = labels.to_vec();
        labels.push(("gen_ai_token_type", kind.to_owned()));
        metrics::counter!("gen_ai_client_tokens_total", &labels).increment(tokens);
    }
    metrics::counter!("gen_ai_client_cost_micro_usd_total", &labels.to_vec()).increment(usage.cost_micro_usd);
}

fn kind(error: &ChatError) -> &'static str {
    match error {
        ChatError::Unauthorized(_) => "unauthorized",
        ChatError::Rejected(_) => "rejected",
        ChatError::RateLimited { .. } => "rate_limited",
        ChatError::Unavailable(_) => "unavailable",
        ChatError::TimedOut(_) => "timed_out",
        ChatError::Unreadable(_) => "unreadable",
        ChatError::OverBudget(_) => "over_budget",
    }
}

fn closed(name: &str, open: breaker::Open, limits: &breaker::Limits) -> ChatError {
    if open.limited {
        return ChatError::RateLimited { retry_after: Some(open.wait) };
    }
    let (failures, seconds) = (limits.failures, open.wait.as_secs());
    ChatError::Unavailable(format!("{name} failed {failures} times in a row; it is asked again in {seconds} s"))
}

fn provider(name: &str) -> &str {
    name.split_once("::").map_or(name, |(provider, _)| provider)
}

fn lock(breaker: &Mutex<Breaker>) -> std::sync::MutexGuard<'_, Breaker> {
    breaker.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
