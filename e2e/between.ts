import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** Stands before a service or a node, and changes what it answers. */
export async function startBetween(target: string) {
  const between = { change: (text: string, _asked: string): string => text, url: '', close: () => {} }
  const server = createServer(async (request, response) => {
    const asked = Buffer.concat(await request.toArray()).toString()
    const headers = { 'content-type': 'application/json' }
    const init = asked === '' ? {} : { method: 'POST', headers, body: asked }
    const answer = await fetch(`${target}${request.url}`, init)
    response.writeHead(answer.status, headers).end(between.change(await answer.text(), asked))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  between.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  between.close = () => {
    server.closeAllConnections()
    server.close()
  }
  return between
}
