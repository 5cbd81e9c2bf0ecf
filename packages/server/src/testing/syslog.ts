/** Returns the messages of octet-counted frames (RFC 6587, section 3.4.1). Throws on other bytes. */
export function splitFrames(bytes: Buffer): string[] {
  const messages: string[] = []
  let rest = bytes
  while (rest.length > 0) {
    const count = /^[1-9][0-9]* /.exec(rest.subarray(0, 12).toString('latin1'))?.[0]
    if (count === undefined) throw new Error('A frame does not begin with a count.')
    const end = count.length + Number(count)
    if (end > rest.length) throw new Error('A frame is shorter than its count.')
    messages.push(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(rest.subarray(count.length, end)))
    rest = rest.subarray(end)
  }
  return messages
}

const message =
  /^<(?<priority>[1-9][0-9]{0,2})>1 (?<at>\S+) (?<host>[!-~]{1,255}) wardline - (?<type>[!-~]{1,32}) \[wardline@32473(?<data>(?: [!-<>-\\^-~]{1,32}="(?:[^"\\\]]|\\["\\\]])*")*)\] \ufeff(?<text>.*)$/su

/** Parses an RFC 5424 message as sent by this service. Throws if it violates the grammar. */
export function parseSyslog(given: string) {
  const { priority = '', at = '', host = '', type = '', data = '', text = '' } = message.exec(given)?.groups ?? {}
  if (priority === '') throw new Error(`Not a message of RFC 5424: ${given}`)
  const parameters = [...data.matchAll(/ ([^ =]+)="((?:[^"\\]|\\.)*)"/gsu)].map(([, name, value]) => [
    name!,
    value!.replaceAll(/\\(["\\\]])/g, '$1'),
  ])
  return { priority: Number(priority), at, host, type, data: Object.fromEntries(parameters), text }
}
