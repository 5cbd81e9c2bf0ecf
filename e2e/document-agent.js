// An agent in a few lines of HTTP: it registers, listens, and confirms every kill and resume.

const [url, id] = process.argv.slice(2)
const headers = { 'x-monitor-key': process.env.WARDLINE_KEY ?? '', 'content-type': 'application/json' }
/** @param {string} path @param {object} body */
async function post(path, body) {
  const answer = await fetch(`${url}/api/${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
}

await post('heartbeat', { instance_id: id, name: id, control_version: 0 })
const { body } = await fetch(`${url}/api/instances/${id}/control`, { headers })
if (body === null) throw new Error('The stream has no body.')
console.log('ready')
for await (const chunk of body.pipeThrough(new TextDecoderStream())) {
  for (const [, version] of chunk.matchAll(/^data: .*"version":(\d+)/gm)) {
    await post(`instances/${id}/ack`, { version: Number(version) })
  }
}
