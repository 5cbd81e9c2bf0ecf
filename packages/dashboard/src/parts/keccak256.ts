// Keccak-256 as used by Ethereum. No browser offers SHA-3, from which it differs by one bit of padding.
// https://keccak.team/keccak_specs_summary.html

const mask = (1n << 64n) - 1n
const rateBytes = 136
const rotated = (lane: bigint, by: bigint) => ((lane << by) | (lane >> (64n - by))) & mask

/** Computes the constants of the 24 rounds with the register that the specification defines. */
function roundConstants(): bigint[] {
  let register = 1
  const nextBit = () => {
    const bit = register & 1
    register = (register << 1) ^ (register & 0x80 ? 0x171 : 0)
    return bit
  }
  return Array.from({ length: 24 }, () => {
    let constant = 0n
    for (let power = 0; power < 7; power++) if (nextBit()) constant |= 1n << BigInt(2 ** power - 1)
    return constant
  })
}

function permute(lanes: bigint[], constants: readonly bigint[]): void {
  const at = (x: number, y: number) => lanes[(x % 5) + 5 * (y % 5)]!
  for (const constant of constants) {
    const columns = [0, 1, 2, 3, 4].map((x) => at(x, 0) ^ at(x, 1) ^ at(x, 2) ^ at(x, 3) ^ at(x, 4))
    const mixed = columns.map((_, x) => columns[(x + 4) % 5]! ^ rotated(columns[(x + 1) % 5]!, 1n))
    for (let index = 0; index < 25; index++) lanes[index] = lanes[index]! ^ mixed[index % 5]!
    let [x, y] = [1, 0]
    let moved = at(x, y)
    for (let step = 0; step < 24; step++) {
      ;[x, y] = [y, (2 * x + 3 * y) % 5]
      const next = at(x, y)
      lanes[x + 5 * y] = rotated(moved, BigInt((((step + 1) * (step + 2)) / 2) % 64))
      moved = next
    }
    const before = [...lanes]
    const was = (x: number, y: number) => before[(x % 5) + 5 * y]!
    for (let index = 0; index < 25; index++) {
      const [column, row] = [index % 5, Math.floor(index / 5)]
      lanes[index] = was(column, row) ^ (~was(column + 1, row) & mask & was(column + 2, row))
    }
    lanes[0] = lanes[0]! ^ constant
  }
}

/** Returns `0x` and the hex hash of a text in UTF-8. */
export function keccak256(text: string): string {
  const bytes = new TextEncoder().encode(text)
  const padded = new Uint8Array(Math.ceil((bytes.length + 1) / rateBytes) * rateBytes)
  padded.set(bytes)
  padded[bytes.length] = 1
  padded[padded.length - 1] = padded.at(-1)! | 0x80
  const view = new DataView(padded.buffer)
  const lanes = Array.from({ length: 25 }, () => 0n)
  const constants = roundConstants()
  for (let start = 0; start < padded.length; start += rateBytes) {
    for (let lane = 0; lane < rateBytes / 8; lane++) {
      lanes[lane] = lanes[lane]! ^ view.getBigUint64(start + 8 * lane, true)
    }
    permute(lanes, constants)
  }
  const out = new DataView(new ArrayBuffer(32))
  for (let lane = 0; lane < 4; lane++) out.setBigUint64(8 * lane, lanes[lane]!, true)
  return `0x${Array.from({ length: 32 }, (_, at) => out.getUint8(at).toString(16).padStart(2, '0')).join('')}`
}
