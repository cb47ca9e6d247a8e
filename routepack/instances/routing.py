"""Which experts tokens choose: shares that differ by layer, domain, prompt and sample, and counts drawn from them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from routepack.window import IntArray

Shares = NDArray[np.float64]

DOMAIN_CONCENTRATION = 79.0  # OLMoE: 71 to 146 over pairs of domains
PROMPT_DISTANCE = 0.27  # total variation between the experts of a prompt and of its response
ROUTERS = {"skewed": 3.0, "medium": 6.0, "balanced": 25.0}  # Dirichlet parameter of an expert's popularity


def stream(seed: int, *key: int) -> np.random.Generator:
    """Return an independent source of draws for each seed and key, whatever was drawn before."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=key)))


def draw_shares(rng: np.random.Generator, mean: Shares, concentration: float | Shares) -> Shares:
    """
    Draw expert shares around a mean: Dirichlet(concentration * mean), layer by layer.

    Parameters
    ----------
    rng
        Source of the draws.
    mean
        Shape (L, E); every layer sums to 1.
    concentration
        A number, or one for each layer, shape (L, 1).

    Returns
    -------
    Shares
        Shape (L, E).
    """
    weight = np.maximum(rng.standard_gamma(concentration * mean), 1e-300)
    return weight / weight.sum(axis=1, keepdims=True)  # type: ignore[no-any-return]


def draw_counts(rng: np.random.Generator, share: Shares, tokens: int, top_k: int) -> IntArray:
    """
    Draw the token-slots of each expert: multinomial, but no expert takes a token twice.

    What exceeds ``tokens`` at one expert is dealt out again among the others.

    Parameters
    ----------
    rng
        Source of the draws.
    share
        Expert shares, shape (L, E).
    tokens
        Tokens T.
    top_k
        Experts a token chooses, at most E.

    Returns
    -------
    IntArray
        Shape (L, E); every layer sums to ``top_k * tokens``, no entry exceeds ``tokens``.
    """
    counts: IntArray = rng.multinomial(top_k * tokens, share)
    while True:
        excess = np.maximum(counts - tokens, 0).sum(axis=1)
        full = np.flatnonzero(excess)
        if not len(full):
            return counts
        part = np.minimum(counts[full], tokens)
        weight = np.where(part < tokens, share[full], 0.0)
        spent = weight.sum(axis=1) == 0  # only experts without a share have room
        weight[spent] = part[spent] < tokens
        counts[full] = part + rng.multinomial(excess[full], weight / weight.sum(axis=1, keepdims=True))


@dataclass(frozen=True, slots=True)
class Router:
    """
    How one model routes, whatever the window.

    Parameters
    ----------
    seed
        Of the model.
    layers, experts, top_k
        MoE layers L, experts E, choices of a token.
    popularity
        Dirichlet parameter of the experts' popularity: 3 as skewed as gpt-oss, 25 well balanced.
    prompt_concentration, sample_concentration
        How close a prompt's shares lie to its domain's, and a sample's to its prompt's.
    """

    seed: int
    layers: int
    experts: int
    top_k: int
    popularity: float
    prompt_concentration: float
    sample_concentration: float

    def popular_shares(self) -> Shares:
        """Expert shares over all domains, shape (L, E)."""
        flat = np.full((self.layers, self.experts), 1 / self.experts)
        return draw_shares(stream(self.seed, 0), flat, self.popularity * self.experts)

    def domain_shares(self, popular: Shares, domain: int) -> Shares:
        """Expert shares of a domain, shape (L, E), around those over all domains."""
        return draw_shares(stream(self.seed, 1, domain), popular, DOMAIN_CONCENTRATION)

    def concentrations(self, domain: Shares, prompt_tokens: int, tokens: float) -> tuple[Shares, Shares, float]:
        """
        Dirichlet concentrations of a prompt group, of its prompt's tokens and of its responses, so that whole samples vary as asked.

        With a part f of its tokens in the prompt, a sample's shares are ``f * prompt + (1 - f) * response``, both around the group's. Their
        variances, in units of g (1 - g), are chosen so that siblings have in common ``1 / (prompt_concentration + 1)``, and have each
        ``1 / (sample_concentration + 1)`` of their own. Prompt and response lie `PROMPT_DISTANCE` apart in total variation, counting noise
        included: half the expected absolute difference of normal shares with variance v g (1 - g) is ``sum(sqrt(v g (1 - g) / (2 pi)))``.
        Where the parts do not fit together, the prompt's variance gives way.

        Parameters
        ----------
        domain
            Expert shares of the domain, shape (L, E).
        prompt_tokens
            Tokens of the prompt.
        tokens
            Tokens of a sample of the group, on average.

        Returns
        -------
        tuple[Shares, Shares, float]
            Of the group and of the prompt's tokens, shape (L, 1) each, and of the responses.
        """
        common, own = 1 / (self.prompt_concentration + 1), 1 / (self.sample_concentration + 1)
        part = min(prompt_tokens / tokens, 0.5)  # a response of few tokens would need a variance beyond all measure
        response = min(own / (1 - part) ** 2, 0.5)
        mean_root = domain / np.sqrt(domain + 0.25 * common)  # E sqrt(g) of a Dirichlet share with mean ``domain``, nearly
        reach = (mean_root * np.sqrt(1 - domain)).sum(axis=1, keepdims=True) / np.sqrt(2 * np.pi)
        noise = (1 / max(prompt_tokens, 1) + 1 / max(tokens - prompt_tokens, 1)) / self.top_k
        apart = (PROMPT_DISTANCE / np.maximum(reach, 1e-9)) ** 2 - noise - response
        prompt = np.clip(apart, common / 10, 0.5)
        group = np.maximum(common - part**2 * prompt, common / 4)
        return 1 / group - 1, 1 / prompt - 1, 1 / response - 1
