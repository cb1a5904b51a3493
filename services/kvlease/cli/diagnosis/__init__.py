"""What is wrong with a deployment: a survey (`surveyor` makes one), and checks that know nothing but the survey."""
