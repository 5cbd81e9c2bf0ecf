/** Reads a part of an IPv4 address as browsers and curl do: decimal, 0x or octal. */
function numberOf(part: string): number {
  if (/^0x[0-9a-f]*$/.test(part)) return Number.parseInt(part.slice(2) || '0', 16)
  if (/^0[0-7]+$/.test(part)) return Number.parseInt(part, 8)
  return /^[0-9]+$/.test(part) ? Number(part) : Number.NaN
}

/** Returns the usual form of an IPv4 address that is written in another one, such as 2852039166 or 0xa9.254.43518. */
function plainAddress(host: string): string {
  const parts = host.split('.')
  if (parts.length > 4) return host
  const numbers = parts.map(numberOf)
  const last = numbers.pop()!
  const rest = 4 - numbers.length
  if (!numbers.every((number) => number < 256) || !(last < 256 ** rest)) return host
  const bytes = Array.from({ length: rest }, (_, at) => Math.floor(last / 256 ** (rest - 1 - at)) % 256)
  return [...numbers, ...bytes].join('.')
}

/** Returns the host of `user@host:port`, as a browser would reach it; undefined if there is none. */
export function hostOf(authority: string): string | undefined {
  if (authority.length > 1_000) return undefined
  const host = authority
    .slice(authority.lastIndexOf('@') + 1)
    .replace(/%([0-7][0-9A-Fa-f])/g, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
    .normalize('NFKC')
    .toLowerCase()
    .replaceAll('\u3002', '.')
  const [, inBrackets, name = ''] = /^(?:\[([0-9a-f:.]+)\](?::[0-9]*)?|([^:]*)(?::[0-9]*)?)$/.exec(host) ?? []
  if (inBrackets !== undefined) return inBrackets
  const bare = name.replace(/\.+$/, '')
  return bare === '' || bare.length > 253 || /[\0- "'<>[\]\\^`{|}$()*,;!]/.test(bare) ? undefined : plainAddress(bare)
}
