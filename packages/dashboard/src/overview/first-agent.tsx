/** What to do while there is nothing to watch. */
export function FirstAgent() {
  const line = `curl -X POST ${location.origin}/api/heartbeat -H "X-Monitor-Key: $WARDLINE_KEY" -H "content-type: application/json" -d '{"instance_id":"my-agent","name":"My agent"}'`
  return (
    <section className="panel" aria-labelledby="first">
      <header>
        <h2 id="first">Connect the first agent</h2>
        <span className="quiet">it shows here within five seconds</span>
      </header>
      <div className="steps">
        <p>
          Create a key for it: <code>wardline keys create --scope agent --instance my-agent</code>
        </p>
        <p>
          Send a heartbeat: <code>{line}</code>
        </p>
        <p>
          Or take the SDK: <code>npm install {location.origin}/sdk.tgz</code>. A fleet to look at:{' '}
          <code>wardline serve --demo</code>
        </p>
      </div>
    </section>
  )
}
