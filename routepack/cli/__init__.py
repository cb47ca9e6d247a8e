"""The command line: parse, call one function, print; one file per command, imported when it is asked for."""

from importlib import import_module
from typing import Any

import click

from routepack import __version__
from routepack.errors import Infeasible, InvalidCertificate, InvalidPlan, RoutePackError

# name -> (module with a click command named `command`, short help)
COMMANDS = {
    "solve": ("routepack.cli.solve", "Plan a window: place experts, prove the rows, lay samples out, verify."),
    "verify": ("routepack.cli.verify", "Recompute everything that a plan claims; trust nothing in it."),
    "info": ("routepack.cli.info", "Show what is in a window and what could be gained."),
    "generate": ("routepack.cli.generate", "Make a window with the statistics of real training."),
    "import": ("routepack.cli.import_trace", "Turn routed experts that a framework recorded into a window."),
    "place": ("routepack.cli.place", "Place experts on EP ranks, by heuristic or exactly."),
    "bound": ("routepack.cli.bound", "Show every lower bound on the score."),
    "rows": ("routepack.cli.rows", "Find the fewest rows and prove that fewer are impossible."),
    "calibrate": ("routepack.cli.calibrate", "Fit attention and expert cost to measured microbatch times."),
    "report": ("routepack.cli.report", "Write a page about a plan or a study: before and after, where the gap sits."),
    "simulate": ("routepack.cli.simulate", "Replay the step under a plan: its time, who waits, a trace."),
    "export": ("routepack.cli.export", "Write a plan in the shape that a trainer or a serving engine takes."),
    "verify-certificate": ("routepack.cli.verify_certificate", "Recompute what row certificates prove."),
    "study": ("routepack.cli.study", "Run methods over many windows, and compare them."),
    "check": ("routepack.cli.check", "Hold every heuristic against proven optima and recorded scores."),
}
BAD_INPUT, INFEASIBLE, REFUSED, INTERRUPTED = 2, 3, 4, 130


class CommandGroup(click.Group):
    """Commands by name, imported on demand, with one line and one exit code for each kind of failure."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the registry."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the file of a command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(COMMANDS[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; say in one line what went wrong."""
        try:
            return super().invoke(ctx)
        except Infeasible as fault:
            _fail(ctx, f"infeasible: {fault}", INFEASIBLE)
        except (InvalidPlan, InvalidCertificate) as fault:
            _fail(ctx, f"refused: {fault}", REFUSED)
        except (RoutePackError, MemoryError) as fault:
            _fail(ctx, f"error: {str(fault) or 'out of memory'}", BAD_INPUT)
        except KeyboardInterrupt:
            _fail(ctx, "interrupted", INTERRUPTED)
        except BrokenPipeError:
            raise
        except OSError as fault:
            _fail(ctx, f"error: {fault.filename}: {fault.strerror}" if fault.filename else f"error: {fault}", BAD_INPUT)


def _fail(ctx: click.Context, message: str, code: int) -> None:
    click.echo(" ".join(message.split()), err=True)
    ctx.exit(code)


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", package_name="routepack")
def main() -> None:
    """
    Plan one optimizer-step window of Mixture-of-Experts reinforcement-learning training.

    A window is a .npz or .json file, or the name of one that ships with the package.

    \b
    Example:
      routepack solve tinymoe-mixed -o plan.json
      routepack verify tinymoe-mixed plan.json

    Exit codes: 0 done, 2 bad input, 3 no plan exists, 4 verification failed, 130 interrupted (the best plan so far is written).
    """
