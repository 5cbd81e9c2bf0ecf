import { types } from 'pg'

const int8 = 20
const numeric = 1700

/** 64-bit integers and their sums as numbers: times, counts and seq stay far below 2^53. */
export const parserOf = (oid: number): ((text: string) => unknown) =>
  oid === int8 || oid === numeric ? Number : types.getTypeParser(oid)
