import { Link } from '@tanstack/react-router'

/** Next steps while no agent is registered. */
export function FirstAgent() {
  return (
    <section className="panel" aria-labelledby="first">
      <header>
        <h2 id="first">Connect the first agent</h2>
        <span className="quiet">it shows here within five seconds</span>
      </header>
      <div className="steps">
        <p>A key for it, and the lines to copy for TypeScript, Python, Claude Code, Codex, Cursor, MCP or curl:</p>
        <p className="chips">
          <Link to="/connect" className="button">
            Connect an agent <kbd>g c</kbd>
          </Link>
          <Link to="/connect" search={{ simulate: true }} className="button">
            Simulate an attack…
          </Link>
        </p>
        <p>
          A whole fleet to look at, on a separate data folder: <code>wardline serve --demo</code>
        </p>
      </div>
    </section>
  )
}
