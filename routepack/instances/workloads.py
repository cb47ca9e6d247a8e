"""How long prompts and responses are: statistics of public workloads, and draws that follow them."""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from routepack.errors import InvalidInstance
from routepack.window import IntArray


@dataclass(frozen=True, slots=True)
class Workload:
    """
    Lengths and topics of one kind of task.

    The logarithm of a response's length is ``mu + b + e``, with b common to the samples of a prompt and e the sample's own;
    ``Var(b) = icc * sigma**2``. A share ``at_cap`` of the responses runs into the cap (more often together where they share a prompt).

    Parameters
    ----------
    prompt_median, prompt_sigma
        Median of the prompt's tokens, and standard deviation of their logarithm.
    mu, sigma
        Mean and standard deviation of the logarithm of the response's tokens, before the cut.
    icc
        Share of the variance that the prompt explains.
    cap
        Longest response, in tokens.
    at_cap
        Share of the responses at the cap; 0 leaves it to the lognormal tail.
    prompt_concentration, sample_concentration
        Dirichlet concentrations of a prompt's expert shares within its domain, and of a sample's within its prompt.
    """

    prompt_median: float
    prompt_sigma: float
    mu: float
    sigma: float
    icc: float
    cap: int
    at_cap: float = 0.0
    prompt_concentration: float = 77.0
    sample_concentration: float = 700.0

    @property
    def prompt_part(self) -> float:
        """Share of the variance of expert shares within a domain that the prompt explains."""
        prompt, sample = 1 / (self.prompt_concentration + 1), 1 / (self.sample_concentration + 1)
        return prompt / (prompt + sample)


# Measured on public data (docs/files.md names it), but for these assumptions: prompt sigma of long-cot, icc of long-code, swe-agent
# and r1, and the concentrations of all but math, gsm8k and agent.
WORKLOADS = {
    "gsm8k": Workload(57, 0.35, 4.74, 0.42, 0.59, 1500, prompt_concentration=116, sample_concentration=174),
    "math": Workload(43, 1.03, 5.88, 0.40, 0.79, 2000),
    "long-cot": Workload(232, 0.60, 8.75, 0.87, 0.79, 30_000, at_cap=0.07),
    "long-code": Workload(549, 0.36, 8.71, 1.02, 0.80, 40_000, at_cap=0.21),
    "agent": Workload(1295, 0.0, 7.57, 0.85, 0.57, 10_000, prompt_concentration=232, sample_concentration=99),
    "swe-agent": Workload(7400, 0.0, 9.14, 0.76, 0.57, 128_000, prompt_concentration=232, sample_concentration=99),
    "r1": Workload(208, 1.90, 6.77, 0.97, 0.79, 32_000),
}


def workload(name: str) -> Workload:
    """
    Statistics of a workload by its name.

    Raises
    ------
    InvalidInstance
        No workload has that name; the known ones are listed.
    """
    if name not in WORKLOADS:
        raise InvalidInstance(f"workload = {name!r} is unknown; choose {', '.join(WORKLOADS)}.")
    return WORKLOADS[name]


def draw_lengths(kind: Workload, prompt_of_sample: IntArray, token_cap: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """
    Draw the tokens of prompts and of whole samples.

    Parameters
    ----------
    kind
        The workload.
    prompt_of_sample
        Prompt of each sample, shape (N,), numbered from 0 without gaps.
    token_cap
        Longest sample; longer ones are cut and kept. A prompt takes at most half of it.
    rng
        Source of the draws.

    Returns
    -------
    tuple[IntArray, IntArray]
        Tokens of each prompt, shape (prompts,), and of each sample with its prompt, shape (N,).
    """
    prompts, samples = int(prompt_of_sample.max()) + 1, len(prompt_of_sample)
    prompt_tokens = _rounded(np.log(kind.prompt_median) + kind.prompt_sigma * rng.standard_normal(prompts), token_cap // 2)
    common, own = rng.standard_normal((2, prompts)), rng.standard_normal((2, samples))
    length, runaway = np.sqrt(kind.icc) * common[:, prompt_of_sample] + np.sqrt(1 - kind.icc) * own  # (sample,) each
    response = _rounded(kind.mu + kind.sigma * length, kind.cap)
    tail = 1 - NormalDist(kind.mu, kind.sigma).cdf(np.log(kind.cap))
    if kind.at_cap > tail:
        response[runaway > NormalDist().inv_cdf((1 - kind.at_cap) / (1 - tail))] = kind.cap
    return prompt_tokens, np.minimum(prompt_tokens[prompt_of_sample] + np.maximum(response, 1), token_cap)


def _rounded(logarithm: np.ndarray, limit: int) -> IntArray:
    tokens: IntArray = np.rint(np.exp(np.minimum(logarithm, 40.0))).clip(max=limit).astype(np.int64)
    return tokens
