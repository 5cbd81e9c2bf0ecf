/** The start of the unit of time that an instant lies in. */
export const startOf = (time: number, unitMs: number): number => time - (time % unitMs)
/** The first start of a unit that is not before the instant. */
export const ceilingOf = (time: number, unitMs: number): number => startOf(time + unitMs - 1, unitMs)
