"""Sums and differences of two-digit numbers, digit by digit in <think>, directly when thinking is off."""
import random

from chat import Conversation, Message, answer, user
from noise import said
from words import NAMES, Pool, part_of

PLUS = Pool(["What is {a} + {b}?", "{a} + {b}", "{a}+{b}=", "What is {a} plus {b}?", "Add {a} and {b}.", "{a} plus {b}?",
             "How much is {a} + {b}?", "Please add {b} to {a}.", "Calculate {a} + {b}.", "What do you get for {a} + {b}?",
             "Compute {a} plus {b}.", "What is the sum of {a} and {b}?", "Can you add {a} and {b}?", "sum of {a} and {b}",
             "{n} has {a} apples and gets {b} more. How many apples does {n} have?", "Work out {a} + {b}.",
             "There are {a} cars, and {b} more arrive. How many cars are there?", "what's {a} plus {b}",
             "I have {a} euros and find {b} more. How much do I have?", "Solve {a} + {b}.", "If I add {b} to {a}, what is it?",
             "{n} walks {a} steps and then {b} steps. How many steps is that?", "{a} and {b} together, how much is that?",
             "What does {a} + {b} make?", "Tell me {a} plus {b}.", "Hi, how much is {a} and {b}?",
             "{n} reads {a} pages on Monday and {b} on Tuesday. How many pages in all?", "Total of {a} and {b}?",
             "Put {a} and {b} together: what is the total?", "A bus has {a} people and {b} get on. How many people now?",
             "Would you sum up {a} and {b} for me?"], "arithmetic.PLUS")
MINUS = Pool(["What is {a} - {b}?", "{a} - {b}", "{a}-{b}=", "What is {a} minus {b}?", "Subtract {b} from {a}.", "{a} minus {b}?",
              "How much is {a} - {b}?", "Take {b} away from {a}.", "Calculate {a} - {b}.", "What do you get for {a} - {b}?",
              "Compute {a} minus {b}.", "What is the difference between {a} and {b}?", "Can you subtract {b} from {a}?",
              "{n} has {a} apples and gives away {b}. How many apples are left?", "Work out {a} - {b}.",
              "There are {a} cars, and {b} drive away. How many cars are left?", "what's {a} minus {b}",
              "I have {a} euros and spend {b}. How much is left?", "Solve {a} - {b}.", "If I take {b} from {a}, what is left?",
              "{n} has {a} nuts and eats {b}. How many remain?", "What does {a} - {b} make?", "Tell me {a} minus {b}.",
              "Hi, how much is {a} less {b}?", "A book has {a} pages and {n} has read {b}. How many are left?",
              "{a} take away {b}?", "Of {a} eggs {b} break. How many are whole?",
              "Would you subtract {b} from {a} for me?", "A bus has {a} people and {b} get off. How many people remain?"], "arithmetic.MINUS")


def pair(rng: random.Random, part: str, sign: str) -> tuple[int, int]:
    while True:
        a, b = rng.randint(10, 99), rng.randint(10, 99)
        if sign == "-" and a < b and rng.random() < 0.9:
            a, b = b, a
        if part_of(f"{a}{sign}{b}") == part:
            return a, b


def _add(a: int, b: int) -> str:
    ones = a % 10 + b % 10
    carry = ones // 10
    tens = a // 10 + b // 10 + carry
    first = f"{a % 10} + {b % 10} = {ones}, write {ones % 10} carry {carry}."
    return f"{first} {a // 10} + {b // 10} + {carry} = {tens}. {tens} then {ones % 10}: {a + b}."


def _subtract(a: int, b: int) -> str:
    ones, borrow = a % 10 - b % 10, int(a % 10 < b % 10)
    top = f"1{a % 10}" if borrow else f"{a % 10}"
    tens = a // 10 - b // 10 - borrow
    first = f"{top} - {b % 10} = {ones % 10}, borrow {borrow}."
    return f"{first} {a // 10} - {b // 10} - {borrow} = {tens}. {tens} then {ones % 10}: {a - b}."


def thought(a: int, b: int, sign: str) -> str:
    """Column by column, ones first."""
    if sign == "+":
        return f"{a} + {b}: " + _add(a, b)
    if a < b:
        return f"{a} - {b}: {a} is less, so minus {b} - {a}. " + _subtract(b, a) + f" So {a - b}."
    return f"{a} - {b}: " + _subtract(a, b)


def turn(rng: random.Random, part: str) -> list[Message]:
    sign = rng.choice("+-")
    a, b = pair(rng, part, sign)
    text = said(PLUS if sign == "+" else MINUS, rng, part).format(a=a, b=b, n=NAMES.pick(rng, part))
    value = a + b if sign == "+" else a - b
    return [user(text), answer(f"{a} {sign} {b} = {value}", thought(a, b, sign))]


def make(rng: random.Random, part: str) -> Conversation:
    return Conversation(turn(rng, part), skill="arithmetic")
