/** Both forms of the small sigma are one letter: a word that ends in it ends elsewhere in a longer text. */
export const folded = (text: string): string => text.toLowerCase().replaceAll('ς', 'σ')
