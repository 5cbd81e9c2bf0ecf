/** Parser of an option that may be given several times. */
export const repeated = (value: string, before: string[] = []): string[] => [...before, value]
