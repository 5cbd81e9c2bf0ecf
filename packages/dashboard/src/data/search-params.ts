/** How a parameter of an address is read; undefined if its value is not valid. */
type Reader<Value> = (value: unknown) => Value | undefined

/** A non-empty text. The router reads numbers out of addresses. */
export const text: Reader<string> = (value) =>
  typeof value === 'string' && value !== '' ? value : typeof value === 'number' ? String(value) : undefined

export const number: Reader<number> = (value) =>
  typeof value === 'number' && Number.isFinite(value) ? value : undefined

export const flag: Reader<true> = (value) => value === true || undefined

/** An instant, in the format that the service accepts. */
export const instant: Reader<string> = (value) => {
  const time = typeof value === 'string' && value.length < 40 ? Date.parse(value) : Number.NaN
  return Number.isFinite(time) ? new Date(time).toISOString() : undefined
}

export const oneOf =
  <Value extends string | number>(values: readonly Value[]): Reader<Value> =>
  (value) =>
    values.find((known) => known === value)

/** A list of at most `max` texts; the empty text is one. */
export const texts =
  (max: number): Reader<string[]> =>
  (value) =>
    Array.isArray(value) ? value.filter((one) => typeof one === 'string').slice(0, max) : undefined

type Read<Readers extends Record<string, Reader<unknown>>> = {
  [Name in keyof Readers]?: Exclude<ReturnType<Readers[Name]>, undefined> | undefined
}

/** Parameters of a screen's address, each read by its reader. For the router, whose `validateSearch` takes a function. */
export function searchParams<Readers extends Record<string, Reader<unknown>>>(readers: Readers) {
  return (search: Record<string, unknown>): Read<Readers> =>
    // A refused value must be an explicit undefined: for a missing name, the router would use the value of the address.
    Object.fromEntries(Object.entries(readers).map(([name, read]) => [name, read(search[name])])) as Read<Readers>
}

export type SearchOf<Params extends (search: Record<string, unknown>) => object> = ReturnType<Params>
