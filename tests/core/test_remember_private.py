"""What nobody wants to find written down is no fact, and what a person may well want to be remembered is one."""

from __future__ import annotations

import pytest

from core.remember import candidates

PRIVATE = """\
My pw is hunter2.
my password is correct horse
Our passphrase is blue kettle on the moon.
My pwd is Tr0ub4dor
The code for my door is 4711.
My door code is 4711.
I use the pin 4711 for my card.
My login is ada and the rest is secret.
My username is ada_l
Our API key is abcdef0123456789
I keep my token in the top drawer.
My key is 3f9a0c77
Our secret is that the server has no backup.
My router is admin1234
Mine is letmein2, my brother has another one.
My card ends in 4242 4242 4242 4242.
My IBAN is DE89 3704 0044 0532 0130 00.
My account number is 12345678.
You can reach me under 0171 2345678.
I can be called at +44 20 7946 0958.
My mail is ada@example.org
My social security number is 078 05 1120.
I was born on the 3rd of May.
My birthday is in May.
My phone rings in the evening.
My address is known to the club.
I live in Baker Street 221b.
I live at 221b Baker Street
We live on 5 Elm Road.
I live near number 17 by the church.
My office is at 10 Downing Street.
Our shop is at 1600 Pennsylvania Avenue.
My flat is 12 Rose Lane.
Our club meets in 9 Harbour Square.
I moved to 44 Mill Drive last year.
My parcel goes to NW1 6XE.
I am at 51.5237, -0.1585 most days.
Mein Passwort ist Sommer
Mein Kennwort lautet hunter2
Unser Schlüssel liegt unter der Matte.
Meine Adresse steht im Verein.
Ich wohne in der Hauptstraße 12.
Ich wohne in 10115 Berlin.
Unser Büro ist in der Lindenallee 7a.
Mein Laden ist am Marktplatz 3.
Ich bin am 3. Mai geboren.
Meine Telefonnummer ist geheim.
Mijn wachtwoord is zomer
Ik woon in de Kerkstraat 14.
Mijn winkel is in 1017 AB Amsterdam.
Mon mot de passe est soleil
Mon bureau est au 12 rue des Lilas.
J'habite au 5 avenue Foch.
Mi contraseña es verano
Mi oficina está en la calle Mayor 5.
Vivo en el número 9 de la plaza.
La mia chiave è sotto il vaso; my clave es 1234
Il mio ufficio è in via Roma 10.
Abito in piazza Dante 4.
Minha senha é praia
Moro na rua Augusta 1200.
My office is at Main street 5.
Unser Büro ist Mozartstr. 5.
Mein Geburtsdatum ist 3. Mai 1980.
My ｐａｓｓｗｏｒｄ is sunshine.
"""

KEPT = """\
I run Threadwise on a Raspberry Pi.
We have three GPUs in one box.
My server has 64 GB of memory.
I use Debian 12 at work.
My version is v2.3.
Our version is 22.04
I work in the support team.
We are a club of 40 people.
I prefer short answers.
I maintain the French translation.
My cluster has five nodes.
We run it behind nginx.
I am new to Kubernetes.
I'm on Windows 11.
Our documents are in Spanish.
I have a 4090 in my desktop.
We use Slack for support and Discord for the rest.
My team uses Ollama.
I live in the Netherlands.
I live in a village without fibre.
We live on donations.
I teach physics at a school.
My board is an ESP32.
I print with PETG.
Our festival is in July.
I drive a Kestrel.
My bike is a Kestrel from 2019.
We stay on the free plan.
I am colour blind.
Ich nutze Ubuntu auf dem Server.
Ich arbeite in der Redaktion.
Wir haben zwei Standorte.
Mein Drucker ist ein Heron.
Ich bin auf dem Weg zu mehr Automatisierung.
Ik gebruik een Mac.
Wij werken met vrijwilligers.
Je travaille avec des enfants.
Nous avons un petit serveur.
Uso Fedora en casa.
Trabajo en una biblioteca.
Lavoro con gli studenti.
Uso Linux no trabalho e tenho dois servidores.
"""


@pytest.mark.parametrize("message", PRIVATE.splitlines())
def test_what_is_private_is_no_fact(message: str):
    assert candidates(message) == ()


def test_a_row_of_blanks_is_taken_as_one():
    assert candidates("I run Fedora" + "\u00a0" * 1000 + "- on two machines") == ("I run Fedora",)


@pytest.mark.parametrize("message", KEPT.splitlines())
def test_what_is_harmless_is_one(message: str):
    assert candidates(message) == (message,)
