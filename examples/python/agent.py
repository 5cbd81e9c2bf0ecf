"""A toy agent without a model, watched by Wardline. It works for a few seconds and stops by itself.

    export WARDLINE_URL=http://127.0.0.1:4747 WARDLINE_KEY=<a key of scope agent for python-example>
    npm run example -- python

Suspend python-example while it works, or plant the decoy path /srv/backup/wallet.dat for it, and see what changes.
"""

import os
import pathlib
import sys

# In your own program, put wardline.py next to your agent.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'clients' / 'python'))

from wardline import Denied, Monitor  # noqa: E402

monitor = Monitor(
    url=os.environ.get('WARDLINE_URL', 'http://127.0.0.1:4747'),
    key=os.environ['WARDLINE_KEY'],
    instance_id='python-example',
    name='Python example',
)


@monitor.on_suspend
def tell(reason: str) -> None:
    print(f'-- suspended: {reason}', flush=True)


@monitor.guard_tool('web-search')
def search(query: str) -> str:
    return f'three pages about {query}'


@monitor.guard_tool('file-read')
def read_file(path: str) -> str:
    return pathlib.Path(path).read_text(encoding='utf-8')[:40].replace('\n', ' ')


# Calls that a model might make; the last one was injected into one of the pages.
plan = [
    (search, 'tides at Ostend'),
    (read_file, __file__),
    (search, 'ferries to Ramsgate'),
    (read_file, '/srv/backup/wallet.dat'),
]

with monitor:
    for tool, argument in plan:
        try:
            print(f'{tool.__name__}({argument!r}): {tool(argument)}', flush=True)
        except Denied as denied:
            print(f'{tool.__name__}: denied ({denied.code}): {denied.reason}', flush=True)
            break
        except OSError as error:
            print(f'{tool.__name__}: {type(error).__name__}', flush=True)
        monitor.metrics_add('tool_calls_per_5min')
        monitor.wait_suspended(0.5)
    print('reports sent' if monitor.flush() else 'reports could not be sent', flush=True)
